//! File names for names from elsewhere: buffers, kernels, cases and devices of a module, a description or a record.
//! None of them can act as a path.

use crate::basis::printable::hex;
use sha2::{Digest, Sha256};

/// Longest name that is used unchanged.
const MAX_PLAIN: usize = 100;
/// Most characters of a name that appear before its hash.
const MAX_SHOWN: usize = 60;
/// Bytes of the hash that separates similar names.
const HASH_BYTES: usize = 16;
/// Character before the hash. No unchanged name contains it, so no two names share a file.
const MARK: char = '+';

/// Returns the file name, without extension, for something called `name`. Letters, digits, `_`, `-`, `.` and `@` stay.
/// A name with other characters, too long, or with a special meaning (`..`, a Windows device) becomes a readable prefix
/// and a hash. The result is one path component of at most 100 characters, and distinct for distinct names, even on
/// file systems that ignore case.
pub fn file_name(name: &str) -> String {
    if is_plain(name) {
        return name.to_string();
    }
    let plain = name.chars().map(|c| if is_plain_character(c) { c } else { '_' });
    let prefix: String = plain.take(MAX_SHOWN).collect();
    let prefix = prefix.trim_start_matches(['.', '-']);
    let escape = if is_reserved(prefix) { "_" } else { "" };
    let hash = hex(&Sha256::digest(name.as_bytes())[..HASH_BYTES]);
    format!("{escape}{prefix}{MARK}{hash}")
}

/// Whether `name` can be its own file name.
pub fn is_plain(name: &str) -> bool {
    (1..=MAX_PLAIN).contains(&name.len())
        && name.chars().all(is_plain_character)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !is_reserved(name)
}

fn is_plain_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-@".contains(c)
}

/// Whether Windows takes a file of this name, with any extension, for a device.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let numbered = |prefix| stem.strip_prefix(prefix).is_some_and(|rest| rest.len() == 1 && rest != "0");
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str()) || numbered("COM") || numbered("LPT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn usual_names_stay_and_others_show_where_they_come_from() {
        for name in ["X", "x", "block_0.weight", "A-1", &"n".repeat(100)] {
            assert_eq!(file_name(name), name);
        }
        for (name, shown) in [
            ("../../home/data", "_.._home_data+"),
            ("/etc/passwd", "_etc_passwd+"),
            ("..", "+"),
            ("", "+"),
            ("-rf", "rf+"),
            ("nul", "_nul+"),
            ("COM1.x", "_COM1.x+"),
            ("a b", "a_b+"),
            ("a\nb", "a_b+"),
            ("A.", "A.+"),
            ("é", "_+"),
        ] {
            assert!(file_name(name).strip_prefix(shown).is_some_and(|hash| hash.len() == 32), "{name}");
        }
        assert_ne!(file_name("a b"), file_name("a_b"));
        assert_eq!(file_name(&"n".repeat(300)).len(), 93);
    }

    /// Fragments of names that act as paths, look alike or are too long.
    fn names() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => "[a-zA-Z0-9._/\\\\:+ -]{0,6}",
            1 => "\\PC{0,4}",
            1 => prop::sample::select(vec!["..", "/", "../", "NUL", "con", "\0", "\n", "\u{202e}", "~", "$HOME", "C:"])
                .prop_map(String::from),
            1 => "[aA]{60,120}",
        ];
        prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        #[test]
        fn a_file_of_any_name_lies_in_its_folder_and_no_two_names_share_one(a in names(), b in names()) {
            for ending in ["", ".npy", ".bin.zst"] {
                let path = Path::new("folder").join(file_name(&a) + ending);
                prop_assert_eq!(path.parent(), Some(Path::new("folder")));
                prop_assert!(matches!(path.components().nth(1), Some(Component::Normal(_))), "{}", path.display());
            }
            let own = file_name(&a);
            let other = file_name(&b);
            prop_assert!(own.len() <= 100 && own.chars().all(|c| is_plain_character(c) || c == MARK), "{}", own);
            prop_assert!(!is_reserved(&own) && !own.starts_with('-'), "{}", own);
            prop_assert_eq!(a == b, own == other);
            prop_assert!(a.eq_ignore_ascii_case(&b) || !own.eq_ignore_ascii_case(&other));
            // A file name is never the unchanged name of something else.
            prop_assert!(own == a || file_name(&own) != own);
        }
    }
}
