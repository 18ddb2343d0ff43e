//! The report as one HTML file without anything from elsewhere: the table, and for each phase its latency by
//! percentile and its operations by second.

use std::fmt::Write;

use super::charts::{bars, colour, curves, escape};
use super::{Outcome, quantiles_ns, table};

const STYLE: &str = "body{font:14px sans-serif;margin:2em}pre{background:#f4f4f4;padding:1em;overflow-x:auto}\
figure{margin:1em 0}figcaption{font-weight:bold}svg{background:#fafafa;width:100%;height:auto;display:block}\
.line{fill:none;stroke-width:2}.axis{stroke:#ccc}text{font:11px sans-serif;fill:#444}";

/// The report of one run.
pub(crate) fn html(outcome: &Outcome) -> String {
    let mut page = Page::new(outcome.scenario, &table(outcome));
    for phase in &outcome.phases {
        page.figure(
            &format!("{}: latency by percentile", phase.name),
            &curves(&[quantiles_ns(phase)]),
        );
        if phase.windows().len() > 2 {
            page.figure(
                &format!("{}: operations by second", phase.name),
                &bars(phase.windows(), 0),
            );
        }
    }
    page.end()
}

/// A page that is being written.
pub(crate) struct Page(String);

impl Page {
    /// With a text at its head, as it stands on a terminal.
    pub(crate) fn new(title: &str, text: &str) -> Self {
        let title = escape(title);
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>millpond bench \
             {title}</title><style>{STYLE}</style></head><body>\n<h1>millpond bench {title}</h1>\n\
             <pre>{}</pre>\n",
            escape(text)
        ))
    }

    /// Which colour is whose.
    pub(crate) fn legend(&mut self, runs: &[String]) {
        for (run, name) in runs.iter().enumerate() {
            let (colour, name) = (colour(run), escape(name));
            let _ = writeln!(self.0, "<p style=\"color:{colour}\">&#9632; {name}</p>");
        }
    }

    pub(crate) fn figure(&mut self, caption: &str, chart: &str) {
        let caption = escape(caption);
        let _ = writeln!(
            self.0,
            "<figure><figcaption>{caption}</figcaption>{chart}</figure>"
        );
    }

    pub(crate) fn end(self) -> String {
        self.0 + "</body></html>\n"
    }
}
