//! The page of a history: a chart for each case, the places where cases changed, the runs.

use super::chart::Draw;
use super::trend::Trend;
use super::{Page, SCRIPT, started};
use crate::basis::markup::escape;
use crate::basis::units::counted;
use crate::history::{Event, History, Series};
use crate::report::history::{devices, levels, percent, remark, run, shortage, summary};
use std::fmt::Write;

/// The page of `history`.
#[must_use]
pub(crate) fn page(history: &History) -> String {
    let mut page = Page { out: String::new(), charts: vec![] };
    page.opening(&format!("gpukern: history of {}", counted(history.runs.len(), "run")));
    page.line("<main>");
    let _ = writeln!(page.out, r#"<p id="results" tabindex="-1">{}</p>"#, escape(&summary(history)));
    if !history.events.is_empty() {
        page.line("<h2>Where cases changed</h2>");
        for event in &history.events {
            self::event(&mut page, history, event);
        }
    }
    for device in devices(history) {
        let _ = writeln!(page.out, "<h2>{}</h2>", escape(device));
        page.line(
            r#"<p class="quiet">A dot for each run, the level between steps as a line, a step as a vertical one.</p>"#,
        );
        if let Some(shortage) = shortage(history, device) {
            let _ = writeln!(page.out, r#"<p class="quiet">{}.</p>"#, escape(&shortage));
        }
        page.line(r#"<div class="charts">"#);
        for series in history.series.iter().filter(|series| series.device == device) {
            chart(&mut page, history, series);
        }
        page.line("</div>");
    }
    runs(&mut page, history);
    left_out(&mut page, history);
    page.line("</main>");
    page.line(&format!("<script>{SCRIPT}</script>"));
    page.line("</body>\n</html>");
    page.out
}

fn event(page: &mut Page, history: &History, event: &Event) {
    let [before, after] = [event.before, event.after].map(|at| escape(&run(&history.runs[at])));
    let _ = writeln!(page.out, "<h3>Run {}, after {}: {after}</h3>", event.after + 1, event.before + 1);
    let _ = writeln!(page.out, r#"<p class="quiet">The run before: {before}</p>"#);
    let changed = if event.changes.is_empty() {
        "nothing that records have of all cases".into()
    } else {
        event.changes_in_words()
    };
    let _ = writeln!(page.out, "<p>Changed: {}</p>", escape(&changed));
    page.open_table(
        "Cases that changed",
        "figures remarks",
        &["case", ">change", ">levels", ">runs", ">by chance", "what changed of it"],
    );
    for moved in &event.moves {
        let series = &history.series[moved.series];
        let step = &series.steps[moved.step];
        let why: Vec<_> = moved.changes.iter().cloned().chain(remark(history, series, moved.step)).collect();
        let [old, new] = step.counts;
        let _ = writeln!(
            page.out,
            r#"<tr><th scope="row">{}</th><td class="n">{}</td><td class="n">{}</td><td class="n">{old} and {new}</td><td class="n">≤ {:.0e}</td><td>{}</td></tr>"#,
            escape(&series.id),
            percent(step.ratio()),
            levels(series, moved.step),
            step.q,
            escape(&why.join("; "))
        );
    }
    page.close_table();
    if !event.confirm.is_empty() {
        let commands = event.confirm.iter().map(|command| escape(command)).collect::<Vec<_>>().join("\n");
        let _ = writeln!(page.out, "<p>To confirm it:</p>\n<pre>{commands}</pre>");
    }
}

fn chart(page: &mut Page, history: &History, series: &Series) {
    let trend = Trend::new(history, series);
    page.figure(&trend as &dyn Draw);
}

fn runs(page: &mut Page, history: &History) {
    page.line("<h2>Runs</h2>");
    let headings = ["run", "began", "file", "commit", "label", "host", "driver", "gpukern"];
    page.open_table("The runs, in order", "figures", &headings);
    for (at, run) in history.runs.iter().enumerate() {
        let (record, origin) = (&run.record, &run.record.origin);
        let drivers: Vec<_> = record.devices.iter().map(|device| device.driver.info.clone()).collect();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let cells = [
            started(&record.started),
            run.name.clone(),
            or_dash(origin.commit_text()),
            or_dash(origin.label.clone()),
            or_dash(origin.host_text()),
            drivers.join(", "),
            record.version.clone(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(page.out, r#"<tr><th scope="row">{}</th>{cells}</tr>"#, at + 1);
    }
    page.close_table();
}

fn left_out(page: &mut Page, history: &History) {
    if history.left_out.is_empty() {
        return;
    }
    page.line("<h2>Left out</h2>\n<ul>");
    for reason in &history.left_out {
        let _ = writeln!(page.out, "<li>{}</li>", escape(reason));
    }
    page.line("</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::HOSTILE;
    use crate::history::tests::{driver_change, settings};

    #[test]
    fn the_page_is_well_formed_and_text_of_records_is_text() {
        let mut runs = driver_change();
        for run in &mut runs {
            run.name = format!("{}{HOSTILE}", run.name);
            run.record.devices[0].name = HOSTILE.into();
            run.record.origin.label = Some(HOSTILE.into());
            run.record.origin.host = Some(HOSTILE.into());
            run.record.cases[0].id = HOSTILE.into();
        }
        let history = History::new(runs, vec![HOSTILE.into()], &settings());
        let page = page(&history);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).expect("well-formed XML");
        let count = |name: &str| {
            document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", name))).count()
        };
        assert_eq!((count("script"), count("figure"), count("h3")), (1, 2, 1), "a chart for each case, one place");
        assert!(page.contains("Mesa 22.3 → Mesa 26.2") && page.contains("gpukern ab matmul"));
    }
}
