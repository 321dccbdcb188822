"""What happened: records of runs, tables and figures."""

from personae.report.figures import lifelong_curves as lifelong_curves
from personae.report.figures import save_figure as save_figure
from personae.report.record import Record as Record
from personae.report.record import read_record as read_record
from personae.report.tables import task_table as task_table
from personae.report.tables import total_line as total_line
