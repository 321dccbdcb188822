"""What happened: records of runs, tables and figures."""

from personae.report.collection import Collection as Collection
from personae.report.collection import collect as collect
from personae.report.collection import with_masks as with_masks
from personae.report.comparison import Comparison as Comparison
from personae.report.comparison import compare_records as compare_records
from personae.report.figures import lifelong_curves as lifelong_curves
from personae.report.figures import save_figure as save_figure
from personae.report.film import save_film as save_film
from personae.report.film import side_by_side as side_by_side
from personae.report.published import published as published
from personae.report.record import Record as Record
from personae.report.record import read_record as read_record
from personae.report.serve import LivePage as LivePage
from personae.report.serve import make_server as make_server
from personae.report.serve import watch as watch
from personae.report.table import Table as Table
from personae.report.tables import comparison_tables as comparison_tables
from personae.report.tables import remarks as remarks
from personae.report.tables import returns_table as returns_table
from personae.report.tables import task_table as task_table
from personae.report.tables import total_line as total_line
from personae.report.write import write_page as write_page
from personae.report.write import write_report as write_report
