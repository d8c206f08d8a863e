//! The part of a recorded command line that says what was measured, for a person to measure it again.

use std::ffi::OsStr;

/// Options with a value that are this process's own: where its results go, how they are shown, what they are compared with.
const OWN: [&str; 13] = [
    "--budget",
    "--columns",
    "--compare",
    "--json",
    "--keep-failures",
    "--min-effect",
    "--print",
    "--process-noise",
    "--processes",
    "--resume",
    "--rounds",
    "--save",
    "--table",
];

/// Those that take no value, or one in the same word alone.
const OWN_FLAGS: [&str; 2] = ["--force", "--noise"];

/// The words of a command line that say what is measured and how.
pub(super) fn measuring<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Vec<W> {
    let mut is_value = false;
    let says_it = |word: &W| {
        let word = word.as_ref().to_string_lossy();
        let (option, joined) = word.split_once('=').map_or((&*word, false), |(option, _)| (option, true));
        let is_own = !is_value && OWN.contains(&option);
        let goes = is_value || is_own || OWN_FLAGS.contains(&option);
        is_value = is_own && !joined;
        !goes
    };
    words.into_iter().filter(says_it).collect()
}

#[cfg(test)]
mod tests {
    use super::measuring;

    fn kept(line: &str) -> String {
        measuring(line.split(' ')).join(" ")
    }

    #[test]
    fn what_is_measured_stays_and_what_becomes_of_it_goes() {
        assert_eq!(
            kept("bench lu --json a.json -s 64 --noise --label=x --noise=8 --dtype f32"),
            "bench lu -s 64 --label=x --dtype f32"
        );
        assert_eq!(kept("run k.toml --min-effect=5% --force --save D=d.npy --size 64"), "run k.toml --size 64");
        assert_eq!(
            kept("k.toml --print=D --table both --compare a.json --compare b.json --no-peak"),
            "k.toml --no-peak"
        );
    }
}
