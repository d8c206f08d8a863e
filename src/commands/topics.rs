//! `gpukern help TOPIC`: pages of the documentation, which the binary contains.

use super::origin::BUILT_FROM;
use super::{CommandOutput, help};
use crate::basis::error::meant;
use crate::report::manual;
use crate::report::table::{Table, prose};
use crate::{CATALOGUE, Host, Result, brief};

/// A page of the documentation.
struct Topic {
    name: &'static str,
    /// Path below `docs/`.
    path: &'static str,
    /// The page, in Markdown. Its first heading is the title.
    text: &'static str,
}

impl Topic {
    fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }
}

macro_rules! topics {
    ($($name:literal $path:literal)*) => {
        &[$(Topic { name: $name, path: $path, text: include_str!(concat!("../../docs/", $path)) }),*]
    };
}

/// The pages in the order of tasks. No topic has the name of a command, whose help `gpukern help` prints.
const TOPICS: &[Topic] = topics! {
    "kernels" "run.md"
    "description" "description.md"
    "structures" "structures.md"
    "cli" "cli.md"
    "pages" "pages.md"
    "times" "times.md"
    "checks" "checks.md"
    "weak-checks" "weak-checks.md"
    "verification" "verification.md"
    "races" "sanitize.md"
    "verdicts" "compare.md"
    "noise" "noise.md"
    "alternate" "alternate.md"
    "limits" "limits.md"
    "compilers" "inspect.md"
    "shipping" "shipping.md"
    "tuning" "tuning.md"
    "profiles" "capture.md"
    "cases" "cases.md"
    "drivers" "drivers.md"
    "portability" "portability.md"
    "gate" "gate.md"
    "ci" "ci/README.md"
    "fleet" "fleet/README.md"
    "security" "security.md"
    "building" "building.md"
    "extending" "extending.md"
    "words" "words.md"
    "matmul" "studies/matmul.md"
    "lu" "studies/lu.md"
    "eigen" "studies/eigen.md"
    "measuring" "studies/measuring.md"
};

/// Topic of the glossary.
const WORDS: &str = "words";

/// Name that lists the topics.
const LIST: &str = "topics";

/// Widest page that is comfortable to read, in columns.
pub(super) const MAX_WIDTH: usize = 100;

/// Prints the page on a topic.
pub(super) fn print(name: &str, host: &Host) -> Result<CommandOutput> {
    let width = host.width().min(MAX_WIDTH);
    let lowercase = name.to_lowercase();
    let name = &*lowercase;
    if name == LIST {
        return Ok(CommandOutput::success(list(width)));
    }
    if name == CITE {
        let text = bibtex().trim_start().to_string() + "\n" + &section("pages", PAPER).unwrap_or_default();
        return Ok(CommandOutput::success(manual::terminal(&text, width, &page_name)));
    }
    // The path of a page stands for its topic: `docs/sanitize.md`.
    let path = name.trim_start_matches("./").trim_start_matches("docs/").trim_end_matches(".md");
    let Some(topic) = TOPICS
        .iter()
        .find(|topic| is_called(topic, name) || topic.path.trim_end_matches(".md").eq_ignore_ascii_case(path))
    else {
        let root = help::documented();
        let commands = root.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        let mut known: Vec<&str> = names().collect();
        known.extend(commands);
        if let Some(algorithm) = CATALOGUE.known(name).filter(|_| !is_term(name)) {
            return Err(usage!(
                "`gpukern list {0}` describes {0}; docs/studies says why its variants are as fast as they are",
                algorithm.name
            ));
        }
        if let Some(text) = mentions(name, width) {
            return Ok(CommandOutput::success(text));
        }
        let question = meant(name, &known).map_or_else(String::new, |question| question + " ");
        let name = brief(name);
        return Err(usage!(
            "unknown command or topic '{name}'; {question}`gpukern -h` lists commands, `gpukern help {LIST}` topics"
        ));
    };
    let text = match topic.text.split_once(FIRST_PART_END) {
        // Its name asks what to do first; the path and other words ask for the page.
        Some((first, _)) if lowercase == topic.name => {
            format!("{first}\n`gpukern help docs/{}` prints all.\n", topic.path)
        }
        Some((first, rest)) => first.to_string() + rest,
        None => topic.text.into(),
    };
    Ok(CommandOutput::success(manual::terminal(&text, width, &page_name)))
}

/// Name that prints how to cite this version.
const CITE: &str = "cite";

/// Heading of the part of its page about papers.
const PAPER: &str = "Numbers for a paper";

/// Returns the part of a page below a heading of any level, with the heading, up to the next part or part of one.
fn section(name: &str, heading: &str) -> Option<String> {
    let topic = TOPICS.iter().find(|topic| topic.name == name)?;
    let (_, below) = topic.text.split_once(&format!("# {heading}\n"))?;
    let part = below.split("\n## ").next()?.split("\n### ").next()?.trim_end();
    Some(format!("## {heading}\n{part}\n"))
}

/// Returns a BibTeX entry of this version, as a block of Markdown.
fn bibtex() -> String {
    let citation = include_str!("../../CITATION.cff");
    let field = |name| citation.split_once(name).and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
    let names = ["\ntitle: ", "name: ", "\nversion: ", "\ndate-released: "];
    let [title, author, version, released] = names.map(|name| field(name).trim_matches('"'));
    let year = released.split('-').next().unwrap_or_default();
    let commit = if BUILT_FROM.is_empty() { String::new() } else { format!(", commit {BUILT_FROM}") };
    let address = env!("CARGO_PKG_REPOSITORY");
    let url = if address.is_empty() { String::new() } else { format!(",\n  url = {{{address}}}") };
    format!(
        "\n```bibtex\n@misc{{gpukern,\n  title = {{{{{title}}}}},\n  author = {{{{{author}}}}},\n  \
         year = {{{year}}},\n  note = {{Version {version}{commit}}}{url}\n}}\n```\n"
    )
}

/// End of what `gpukern help` prints of a long page.
const FIRST_PART_END: &str = "\n<!-- `gpukern help ci` ends here -->\n";

/// Least letters of a word that is looked up in the pages, unless the glossary has it.
const MIN_LETTERS: usize = 3;

/// Most pages that are listed for a word.
const MAX_PAGES: usize = 8;

/// Iterates over the lines of the glossary: terms, with commas between them, and their meaning.
fn glossary() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = TOPICS.iter().find(|topic| topic.name == WORDS).map_or("", |topic| topic.text).lines();
    rows.filter_map(|row| row.trim_matches('|').split_once(" | "))
}

/// Whether the glossary has a term.
fn is_term(word: &str) -> bool {
    glossary().any(|(terms, _)| terms.trim().split(", ").any(|term| term.eq_ignore_ascii_case(word)))
}

/// Returns what the pages say of a word that is no topic: its lines of the glossary, which may have it in italics as the word of
/// others, and the pages that have it most often; `None` if none has it.
fn mentions(word: &str, width: usize) -> Option<String> {
    let word = word.to_lowercase();
    if word.chars().count() < MIN_LETTERS && !is_term(&word) {
        return None;
    }
    // `subgroup` is `sub-group`, `expect` is `--expect`, and `uninitialised` is spelled with a z, too.
    let form = |text: &str| text.replace('-', "").trim_end_matches('s').replace("is", "iz");
    let searched = form(&word);
    let is_word = |text: &&str| form(text) == searched;
    let count = |text: &str| {
        let text = text.to_lowercase();
        // Terms of several words, such as "bank conflict".
        if !word.chars().all(|c| c.is_alphanumeric() || c == '-') {
            return text.matches(&*word).count();
        }
        text.split(|c: char| !c.is_alphanumeric() && c != '-').filter(is_word).count()
    };
    let mut pages: Vec<_> =
        TOPICS.iter().map(|topic| (count(topic.text), topic)).filter(|(count, _)| *count > 0).collect();
    if pages.is_empty() {
        return None;
    }
    // Studies tell of gpukern's own kernels: they have most words, and the fewest answers.
    let is_about = |topic: &Topic| count(topic.title()) > 0;
    pages.sort_by_key(|(count, topic)| {
        (topic.path.starts_with("studies/"), !is_about(topic), std::cmp::Reverse(*count))
    });
    let mut text = String::new();
    for (term, meaning) in glossary() {
        if count(term) > 0 || meaning.contains(&format!("*{word}*")) {
            let row = format!("{}: {}", term.trim(), meaning.trim());
            text += &manual::terminal(&row, width, &page_name);
            text.push('\n');
        }
    }
    let mut table = Table::default().text(["topic"]).prose(["page"]).numbers(["times"]);
    for (count, topic) in pages.into_iter().take(MAX_PAGES) {
        table.row([topic.name, topic.title(), &count.to_string()]);
    }
    Some(text + &prose(&format!("Pages with the word '{}':", brief(&word)), width, 0) + &table.terminal(width))
}

/// Whether a topic has this name, in the singular or the plural.
fn is_called(topic: &Topic, name: &str) -> bool {
    topic.name.trim_end_matches('s') == name.trim_end_matches('s')
}

/// Returns the names that `gpukern help` takes beside those of commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|topic| topic.name).chain([LIST])
}

fn list(width: usize) -> String {
    let mut table = Table::default().text(["topic"]).prose(["page", ""]);
    for topic @ Topic { name, path, .. } in TOPICS {
        table.row([*name, topic.title(), &format!("docs/{path}")]);
    }
    let usage = "`gpukern help TOPIC` prints a page, `gpukern help COMMAND` the options of a command.";
    table.terminal(width) + "\n" + &prose(usage, width, 0)
}

/// Returns the command that prints the page to which a link leads.
fn page_name(target: &str) -> Option<String> {
    let path = target.split('#').next()?.trim_start_matches("../");
    let topic = TOPICS.iter().find(|topic| topic.path == path)?;
    Some(format!("`gpukern help {}`", topic.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_topic_hides_behind_a_command() {
        let root = help::documented();
        for name in names() {
            assert!(root.find_subcommand(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_topic_of_ci_is_what_to_do_first_and_its_path_the_page() {
        let page = |name: &str| print(name, &Host::in_memory([], [], "gpukern")).expect("a page").output;
        let [first, whole] = ["ci", "docs/ci/README.md"].map(page);
        assert!(
            first.lines().count() <= 70 && first.ends_with("`gpukern help docs/ci/README.md` prints all.\n"),
            "{first}"
        );
        assert!(whole.contains("Dashboards") && !whole.contains("<!--"), "{whole}");
    }

    #[test]
    fn a_paper_has_an_entry_of_this_version() {
        let text = print("cite", &Host::in_memory([], [], "gpukern")).expect("a page").output;
        assert!(text.starts_with("    @misc{gpukern,\n") && text.contains("\n\nNumbers for a paper\n"), "{text}");
        let [author, version] = ["author = {{The gpukern authors}}", concat!("Version ", env!("CARGO_PKG_VERSION"))];
        assert!(text.contains(author) && text.contains(version), "{text}");
        let released = concat!("## [", env!("CARGO_PKG_VERSION"), "] - ");
        let (_, date) = include_str!("../../CHANGELOG.md").split_once(released).expect("it has this version");
        assert!(text.contains(&format!("year = {{{}}}", &date[..4])) && text.contains(BUILT_FROM), "{text}");
    }

    #[test]
    fn every_page_is_printed_whole_without_marks() {
        for Topic { name, text, .. } in TOPICS {
            let text = &text.replace(FIRST_PART_END, "");
            assert!(text.starts_with("# "), "{name} has no title");
            let page = manual::terminal(text, 80, &page_name);
            assert!(!page.contains("](") && !page.contains("**") && !page.contains("---"), "{name}: {page}");
            // Tables break long words, and links to pages become commands.
            let letters: String = page.chars().filter(|c| c.is_alphanumeric()).collect();
            let labels =
                text.split("](").flat_map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).split(' '));
            let is_word = |word: &&str| word.len() > 5 && word.chars().all(char::is_alphabetic);
            let lost: Vec<&str> = labels.filter(is_word).filter(|word| !letters.contains(word)).collect();
            assert!(lost.len() * 100 <= text.split(' ').count(), "{name} lacks {lost:?}");
        }
    }
}
