"""Records of runs, comparisons, tables and figures."""

from personae.report.data.collection import Collection as Collection
from personae.report.data.collection import collect as collect
from personae.report.data.collection import with_masks as with_masks
from personae.report.data.comparison import Comparison as Comparison
from personae.report.data.comparison import compare_records as compare_records
from personae.report.data.record import Record as Record
from personae.report.data.record import read_record as read_record
from personae.report.paper.published import published as published
from personae.report.render.figures import lifelong_curves as lifelong_curves
from personae.report.render.figures import save_figure as save_figure
from personae.report.render.film import save_film as save_film
from personae.report.render.film import side_by_side as side_by_side
from personae.report.render.remarks import collection_remarks as collection_remarks
from personae.report.render.remarks import remarks as remarks
from personae.report.render.serve import LivePage as LivePage
from personae.report.render.serve import make_server as make_server
from personae.report.render.serve import watch as watch
from personae.report.render.table import Table as Table
from personae.report.render.tables import collection_tables as collection_tables
from personae.report.render.tables import comparison_tables as comparison_tables
from personae.report.render.tables import returns_table as returns_table
from personae.report.render.tables import task_table as task_table
from personae.report.render.tables import total_line as total_line
from personae.report.render.write import write_page as write_page
from personae.report.render.write import write_report as write_report
