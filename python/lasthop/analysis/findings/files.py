"""Write the tables of a finished campaign's findings."""

from lasthop.analysis.findings.analyse import summary_of_points
from lasthop.analysis.findings.findings import Findings
from lasthop.common.files import replace_atomically

SUMMARY = "summary.csv"
COMPARISON = "comparison.csv"
ENGINES = "engines.csv"
PRECISION = "precision.csv"
CLAIMS = "claims.csv"
CLAIMS_BY_CELL = "claims_cells.csv"
STATEMENTS = "statements.csv"


def write_tables(findings: Findings) -> None:
    out = findings.campaign.out
    replace_atomically(out / SUMMARY, summary_of_points(findings).write_csv)
    if findings.comparison is not None:
        replace_atomically(out / COMPARISON, findings.comparison.write_csv)
    if findings.beside is not None:
        replace_atomically(out / ENGINES, findings.beside.numbers.write_csv)
    if findings.precision is not None:
        replace_atomically(out / PRECISION, findings.precision.write_csv)
    if findings.claims:
        from lasthop.analysis.claims.verdicts import cells_frame, claims_frame, statements_frame

        replace_atomically(out / CLAIMS, claims_frame(findings.claims).write_csv)
        replace_atomically(out / CLAIMS_BY_CELL, cells_frame(findings.claims).write_csv)
        if findings.answers:
            replace_atomically(out / STATEMENTS, statements_frame(findings.answers).write_csv)
