//! Output of a command as a document that terminal, Markdown and HTML pages print.

use super::compare::to_paste;
use super::table::Table;
use crate::basis::printable::{
    escape, escape_prose, latex, markdown, markdown_code, markdown_prose, printable, printable_lines,
};
use crate::basis::prose::prose;
use crate::record::marks::Mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Plain,
    /// Sentence of gpukern's own, with backticks around commands.
    Prose,
    /// Name that programs use.
    Code,
    Strong,
    /// Label before a name.
    Label,
}

/// Paragraph of formatted texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormattedText(Vec<(TextKind, String)>);

impl<T: Into<String>> From<T> for FormattedText {
    fn from(text: T) -> Self {
        Self(vec![(TextKind::Plain, text.into())])
    }
}

impl FormattedText {
    pub fn prose(text: impl Into<String>) -> Self {
        Self(vec![(TextKind::Prose, text.into())])
    }

    pub fn strong(text: impl Into<String>) -> Self {
        Self(vec![(TextKind::Strong, text.into())])
    }

    /// Creates a label with a name: `limit  id`; in Markdown "limit `id`".
    pub fn label(label: impl Into<String>, name: impl Into<String>) -> Self {
        Self(vec![(TextKind::Label, label.into())]).code(name)
    }

    pub fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push((TextKind::Plain, text.into()));
        self
    }

    pub fn code(mut self, name: impl Into<String>) -> Self {
        self.0.push((TextKind::Code, name.into()));
        self
    }

    fn terminal(&self) -> String {
        let part = |(kind, text): &(TextKind, String)| {
            let gap = if *kind == TextKind::Label { "  " } else { "" };
            printable(text).into_owned() + gap
        };
        self.0.iter().map(part).collect()
    }

    fn html(&self) -> String {
        escape_prose(&self.0.iter().map(|(_, text)| text.as_str()).collect::<String>())
    }

    fn markdown(&self) -> String {
        let format = |(kind, text): &(TextKind, String)| match kind {
            TextKind::Plain => markdown(text),
            TextKind::Prose => markdown_prose(text),
            TextKind::Code => markdown_code(text),
            TextKind::Strong => format!("**{}**", markdown(text)),
            TextKind::Label => format!("{} ", markdown(text)),
        };
        self.0.iter().map(format).collect()
    }
}

#[derive(Clone, Debug)]
enum DocumentPart {
    Paragraph {
        words: FormattedText,
        /// Indentation of all terminal lines but the first, in columns.
        hang: usize,
        is_quiet: bool,
    },
    List(Vec<FormattedText>),
    /// Meanings of the signs in the table before it.
    Signs(Vec<FormattedText>),
    Table(Table),
    /// Document that Markdown and pages collapse below its summary.
    Fold(String, Document),
    /// Lines to paste into a shell.
    Commands(String),
    /// Heading of a level.
    Heading(usize, String),
    /// Markup of charts, each for a wide and a narrow page.
    Charts(Vec<[String; 2]>),
    /// Preformatted lines, only for the terminal.
    Verbatim(String),
    /// Empty line, only for the terminal.
    Gap,
}

#[derive(Clone, Debug, Default)]
pub struct Document(Vec<DocumentPart>);

/// Builders.
impl Document {
    pub fn line(&mut self, words: impl Into<FormattedText>) {
        self.hanging(2, words);
    }

    /// Adds a paragraph whose further lines are indented by `hang` columns.
    pub fn hanging(&mut self, hang: usize, words: impl Into<FormattedText>) {
        self.0.push(DocumentPart::Paragraph { words: words.into(), hang, is_quiet: false });
    }

    /// Adds a paragraph of secondary text.
    pub fn quiet(&mut self, words: impl Into<FormattedText>) {
        self.0.push(DocumentPart::Paragraph { words: words.into(), hang: 2, is_quiet: true });
    }

    /// Adds a paragraph of secondary text for each of `lines`.
    pub fn quiet_lines(&mut self, lines: impl IntoIterator<Item = impl Into<FormattedText>>) {
        lines.into_iter().for_each(|words| self.quiet(words));
    }

    /// Adds a paragraph for each of `lines`.
    pub fn lines(&mut self, lines: impl IntoIterator<Item = impl Into<FormattedText>>) {
        lines.into_iter().for_each(|words| self.line(words));
    }

    /// Adds a list, unless it is empty.
    pub fn list(&mut self, items: impl IntoIterator<Item = impl Into<FormattedText>>) {
        let items: Vec<_> = items.into_iter().map(Into::into).collect();
        if !items.is_empty() {
            self.0.push(DocumentPart::List(items));
        }
    }

    /// Adds the meanings of the signs in a table as a list, which LaTeX prints below the table, unless it is empty.
    pub fn signs(&mut self, items: impl IntoIterator<Item = impl Into<FormattedText>>) {
        let items: Vec<_> = items.into_iter().map(Into::into).collect();
        if !items.is_empty() {
            self.0.push(DocumentPart::Signs(items));
        }
    }

    /// Adds the meanings of signs.
    pub fn legend<'m>(&mut self, marks: impl IntoIterator<Item = &'m Mark>) {
        marks.into_iter().for_each(|Mark { sign, meaning }| self.hanging(3, format!("{sign}  {meaning}")));
    }

    pub fn heading(&mut self, level: usize, text: impl Into<String>) {
        self.0.push(DocumentPart::Heading(level, text.into()));
    }

    pub fn table(&mut self, table: Table) {
        self.0.push(DocumentPart::Table(table));
    }

    pub fn fold(&mut self, summary: impl Into<String>, document: Self) {
        self.0.push(DocumentPart::Fold(summary.into(), document));
    }

    pub fn commands(&mut self, commands: impl Into<String>) {
        self.0.push(DocumentPart::Commands(commands.into()));
    }

    pub fn charts(&mut self, charts: Vec<[String; 2]>) {
        self.0.push(DocumentPart::Charts(charts));
    }

    pub fn verbatim(&mut self, text: impl Into<String>) {
        self.0.push(DocumentPart::Verbatim(text.into()));
    }

    pub fn gap(&mut self) {
        self.0.push(DocumentPart::Gap);
    }

    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Printers.
impl Document {
    /// Prints lines of at most `width` columns, where possible.
    pub fn terminal(&self, width: usize) -> String {
        let wrapped = |words: &FormattedText, hang: usize| {
            // Wrapping may move a CI service's command to the beginning of a line, where it would act.
            printable_lines(&prose(&words.terminal(), width, hang)).into_owned()
        };
        let print = |block: &DocumentPart| match block {
            DocumentPart::Paragraph { words, hang, .. } => wrapped(words, *hang),
            DocumentPart::Heading(_, text) => wrapped(&text.as_str().into(), 2),
            DocumentPart::List(items) | DocumentPart::Signs(items) => {
                items.iter().map(|words| wrapped(words, 2)).collect()
            }
            DocumentPart::Table(table) => table.terminal(width),
            DocumentPart::Fold(_, document) => document.terminal(width),
            DocumentPart::Commands(commands) => to_paste(commands, width),
            DocumentPart::Verbatim(text) => text.clone(),
            DocumentPart::Charts(_) => String::new(),
            DocumentPart::Gap => "\n".into(),
        };
        self.0.iter().map(print).collect()
    }

    /// Prints GitHub's Markdown.
    pub fn markdown(&self) -> String {
        let print = |block: &DocumentPart| match block {
            DocumentPart::Paragraph { words, .. } => words.markdown() + "\n\n",
            DocumentPart::Heading(level, text) => format!("{} {}\n\n", "#".repeat(*level), markdown(text)),
            DocumentPart::List(items) | DocumentPart::Signs(items) => {
                items.iter().map(|words| format!("- {}\n", words.markdown())).collect::<String>() + "\n"
            }
            DocumentPart::Table(table) => table.markdown() + "\n",
            DocumentPart::Fold(summary, document) => {
                format!("<details><summary>{summary}</summary>\n\n{}</details>\n\n", document.markdown())
            }
            // Markdown shows indented text unchanged.
            DocumentPart::Commands(commands) => {
                commands.lines().map(|line| format!("    {}\n", printable(line))).collect::<String>() + "\n"
            }
            DocumentPart::Verbatim(_) | DocumentPart::Charts(_) | DocumentPart::Gap => String::new(),
        };
        self.0.iter().map(print).collect()
    }

    /// Prints the tables as LaTeX, with the meanings of signs below them, and paragraphs and lists as its comments. Without a table of its own, it prints those
    /// of its collapsed parts.
    pub fn latex(&self) -> String {
        let has_table = self.0.iter().any(|block| matches!(block, DocumentPart::Table(_)));
        let print = |block: &DocumentPart| match block {
            DocumentPart::Paragraph { words, .. } => format!("% {}\n", words.terminal()),
            DocumentPart::List(items) => items.iter().map(|words| format!("% - {}\n", words.terminal())).collect(),
            DocumentPart::Signs(items) => {
                let line = |words: &FormattedText| format!("\\par{{\\footnotesize {}}}\n", latex(&words.terminal()));
                items.iter().map(line).collect()
            }
            DocumentPart::Table(table) => table.latex(),
            DocumentPart::Fold(_, document) if !has_table => document.latex(),
            _ => String::new(),
        };
        self.0.iter().map(print).collect()
    }

    /// Prints HTML elements.
    pub fn html(&self) -> String {
        let print = |block: &DocumentPart| match block {
            DocumentPart::Paragraph { words, is_quiet, .. } => {
                let class = if *is_quiet { r#" class="quiet""# } else { "" };
                format!("<p{class}>{}</p>\n", words.html())
            }
            DocumentPart::Heading(level, text) => format!("<h{level}>{}</h{level}>\n", escape_prose(text)),
            DocumentPart::List(items) | DocumentPart::Signs(items) => {
                let items = items.iter().map(|words| format!("<li>{}</li>\n", words.html()));
                format!("<ul>\n{}</ul>\n", items.collect::<String>())
            }
            DocumentPart::Table(table) => table.html("figures"),
            DocumentPart::Fold(summary, document) => {
                let summary = escape_prose(summary);
                format!("<details>\n<summary>{summary}</summary>\n{}</details>\n", document.html())
            }
            DocumentPart::Commands(commands) => format!("<pre>{}</pre>\n", escape(commands)),
            DocumentPart::Charts(charts) => {
                let figures = charts.iter().map(figure).collect::<String>();
                format!("<div class=\"charts timelines\">\n{figures}</div>\n")
            }
            DocumentPart::Verbatim(_) | DocumentPart::Gap => String::new(),
        };
        self.0.iter().map(print).collect()
    }
}

/// Returns the HTML element of a chart, drawn for each page width.
pub(super) fn figure([wide, narrow]: &[String; 2]) -> String {
    format!("<figure><div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div></figure>\n")
}
