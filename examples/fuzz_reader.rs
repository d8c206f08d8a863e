//! Feeds mutated records to the reader, and those that it accepts to everything that takes records, until a panic or a
//! number of executions: `scripts/fuzz`.
//!
//! No nightly compiler and no coverage feedback: mutations know what JSON is made of instead (values swapped for others
//! of the document and for hostile ones, pieces cut, doubled and joined, bytes flipped). The same `--seed` gives the same inputs.

use gpukern::{Format, NamedRecord, Outcome, Record, Settings, compare, html, parse_record, tables};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// Values that break parsers and checks.
const HOSTILE: [&str; 22] = [
    "null",
    "true",
    "-1",
    "0",
    "-0.0",
    "1e308",
    "1e999",
    "-1e-320",
    "0.1",
    "18446744073709551616",
    "9007199254740993",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"gpukern-run/3\"",
    "\"gpukern-run/1\"",
    "\"unstable-clock\"",
    "{}",
    "[]",
    "[[[[[[[[[[",
    "{\"kind\":\"drift\"}",
    "\u{feff}",
];

struct Options {
    executions: u64,
    seconds: u64,
    seed: u64,
}

fn options() -> Result<Options, String> {
    let mut options = Options { executions: 1_000_000, seconds: u64::MAX, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let field = match name.as_str() {
            "--executions" => &mut options.executions,
            "--seconds" => &mut options.seconds,
            "--seed" => &mut options.seed,
            _ => return Err(format!("unknown option '{name}'; available: --executions N, --seconds N, --seed N")),
        };
        let value = arguments.next().ok_or(format!("{name} needs a number"))?;
        *field = value.parse().map_err(|_| format!("malformed {name} '{value}'; write a whole number"))?;
    }
    Ok(options)
}

struct Mutator {
    generator: ChaCha8Rng,
    /// Records that are valid, the smallest ones that have everything.
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    fn below(&mut self, end: usize) -> usize {
        (self.generator.next_u64() % end.max(1) as u64) as usize
    }

    /// Where a value of the JSON text lies, roughly: from after a colon, comma or bracket to before the next.
    fn value(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(text.len());
        let begins = |byte: &u8| matches!(byte, b':' | b',' | b'[');
        let Some(start) = text[start..].iter().position(begins).map(|at| start + at + 1) else {
            return start..text.len();
        };
        let end = text[start..]
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']'))
            .map_or(text.len(), |at| start + at);
        start..end
    }

    fn input(&mut self) -> Vec<u8> {
        let first = self.below(self.corpus.len());
        let mut text = self.corpus[first].clone();
        for _ in 0..=self.below(4) {
            if text.is_empty() {
                break;
            }
            match self.below(9) {
                0 => {
                    let place = self.below(text.len());
                    text[place] = self.generator.next_u32() as u8;
                }
                1 => {
                    let place = self.below(text.len());
                    text[place] ^= 1 << self.below(8);
                }
                2 => text.truncate(self.below(4 * text.len())),
                3 | 4 => {
                    let value = HOSTILE[self.below(HOSTILE.len())];
                    let range = self.value(&text);
                    text.splice(range, value.bytes());
                }
                5 => {
                    // A value of another place of this document.
                    let [from, to] = [self.value(&text), self.value(&text)];
                    let value = text[from].to_vec();
                    text.splice(to, value);
                }
                6 => {
                    let ends = [self.below(text.len()), self.below(text.len())];
                    let piece = ends[0].min(ends[1])..ends[0].max(ends[1]).min(ends[0].min(ends[1]) + 200);
                    let copy = text[piece.clone()].to_vec();
                    text.splice(piece.end..piece.end, copy);
                }
                7 => {
                    let start = self.below(text.len());
                    let end = (start + self.below(100)).min(text.len());
                    text.drain(start..end);
                }
                _ => {
                    let depth = self.below(300);
                    let range = self.value(&text);
                    let open: &[u8] = if depth.is_multiple_of(2) { b"[" } else { b"{\"a\":" };
                    text.splice(range, open.repeat(depth));
                }
            }
        }
        text
    }
}

/// Records of this schema and the one before, with few samples so that executions are many.
fn corpus() -> Vec<Vec<u8>> {
    let old = include_str!("../tests/fixtures/run-1.json");
    let mut record = parse_record(old.as_bytes(), "corpus").expect("the fixture is a record").record;
    let whole = serde_json::to_vec(&record).expect("JSON");
    record.cases.truncate(1);
    if let Outcome::Measured(measured) = &mut record.cases[0].outcome {
        measured.samples.truncate(2);
    }
    vec![old.as_bytes().to_vec(), whole, serde_json::to_vec(&record).expect("JSON")]
}

/// Takes a record, however odd, through all that is made of records.
fn use_it(record: Record, other: &Record) {
    for format in Format::ALL {
        // What a format cannot hold is an error, which is an answer.
        let _ = format.export(&record);
    }
    let view = tables::View::of_width(80);
    let _ = (tables::compact(&record, &view), tables::long(&record, &view), tables::notes(&record));
    let _ = compare(std::slice::from_ref(other), std::slice::from_ref(&record), &Settings::default());
    let _ = html::report(&[NamedRecord::new("fuzz", record)]);
}

fn main() -> Result<(), String> {
    let options = options()?;
    let other = parse_record(&corpus()[0], "corpus").map_err(|e| e.to_string())?.record;
    let mut mutator = Mutator { generator: ChaCha8Rng::seed_from_u64(options.seed), corpus: corpus() };
    let begun = Instant::now();
    let limit = Duration::from_secs(options.seconds);
    let (mut done, mut accepted, mut slowest) = (0u64, 0u64, Duration::ZERO);
    while done < options.executions && begun.elapsed() < limit {
        let input = mutator.input();
        let start = Instant::now();
        let outcome = std::panic::catch_unwind(|| {
            parse_record(&input, "fuzz").map(|loaded| use_it(loaded.record, &other)).is_ok()
        });
        slowest = slowest.max(start.elapsed());
        match outcome {
            Ok(true) => accepted += 1,
            Ok(false) => {}
            Err(_) => {
                let path = std::env::temp_dir().join(format!("gpukern-fuzz-{}-{done}.json", options.seed));
                std::fs::write(&path, &input).map_err(|e| e.to_string())?;
                return Err(format!(
                    "execution {done} of seed {} panicked; its input is {}",
                    options.seed,
                    path.display()
                ));
            }
        }
        done += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{done} executions in {seconds:.1} s, {:.0} a second, no panic; {accepted} inputs were records still; the slowest took {:.2} ms",
        done as f64 / seconds,
        1e3 * slowest.as_secs_f64(),
    );
    Ok(())
}
