//! Messages between two processes of this program: lines of JSON, each after a record separator, because drivers and
//! compilers print to the same streams.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};

/// First character of a message (RFC 7464).
const RECORD_SEPARATOR: char = '\u{1e}';

/// Writes `message`.
///
/// # Errors
/// When the reading process has closed the stream.
pub fn write(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(message).expect("messages have nothing that JSON lacks");
    output.write_all(format!("{RECORD_SEPARATOR}{json}\n").as_bytes())?;
    output.flush()
}

/// Returns the message at the end of `line`; `None` if the line holds only other text.
pub fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Option<serde_json::Result<T>> {
    let (_, json) = line.rsplit_once(RECORD_SEPARATOR)?;
    Some(serde_json::from_str(json))
}

/// Iterates over the lines of a stream until its end or an error. Invalid UTF-8 is replaced by U+FFFD.
pub fn lines(source: impl Read) -> impl Iterator<Item = String> {
    let mut source = BufReader::new(source);
    std::iter::from_fn(move || {
        let mut line = vec![];
        let length = source.read_until(b'\n', &mut line).ok()?;
        (length > 0).then(|| String::from_utf8_lossy(&line).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_text_that_a_driver_printed_before_it() {
        let mut output = b"a driver's word without an end".to_vec();
        write(&mut output, &("two\nlines", 3)).expect("written");
        let read: Vec<_> = lines(&output[..]).filter_map(|line| parse::<(String, u32)>(&line)?.ok()).collect();
        assert_eq!(read, [("two\nlines".to_string(), 3)]);
    }

    #[test]
    fn other_text_is_distinguished_from_a_broken_message() {
        assert!(parse::<u32>("MESA: warning\n").is_none());
        assert!(matches!(parse::<u32>("\u{1e}{\"End\": 1}\n"), Some(Err(_))));
    }
}
