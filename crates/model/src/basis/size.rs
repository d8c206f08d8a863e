//! Problem sizes and sweeps as typed by users: `1024`, `128,1000`, `128..8192`, `128..1024:128`, `1000x70x130`,
//! `2^16..2^25`.

use crate::basis::alike::distinct;
use crate::basis::printable::brief;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Problem size: extents that the algorithm interprets.
///
/// A single extent stands for a square or cubic problem (`1024` is 1024×1024×1024 for matmul).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Size {
    /// The same extent in every dimension.
    Uniform(u64),
    /// Two extents, such as a working set and the number of words accessed.
    Two(u64, u64),
    /// M×N×K.
    Three(u64, u64, u64),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(n) => f.pad(&n.to_string()),
            Self::Two(a, b) => f.pad(&format!("{a}x{b}")),
            Self::Three(m, n, k) => f.pad(&format!("{m}x{n}x{k}")),
        }
    }
}

impl Size {
    /// Returns the size with a single extent if all three are equal: `64x64x64` becomes `64`.
    pub fn shortest(self) -> Self {
        match self {
            Self::Three(m, n, k) if m == n && n == k => Self::Uniform(m),
            other => other,
        }
    }

    /// Returns the extents as written.
    pub fn extents(self) -> Vec<u64> {
        match self {
            Self::Uniform(n) => vec![n],
            Self::Two(a, b) => vec![a, b],
            Self::Three(m, n, k) => vec![m, n, k],
        }
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_separator = text.contains('x');
        if has_separator && text.split('x').any(|item| item.trim().parse() == Ok(0u64)) {
            return Err(format!(
                "size '{}' has an extent of zero; write decimal extents with x between them, as in 1000x70x130",
                brief(text)
            ));
        }
        if has_separator && text.split('x').any(|item| item.trim().is_empty()) {
            return Err(format!("size '{}' lacks an extent; write N, or MxNxK for matmul", brief(text)));
        }
        let extents = text.split('x').map(extent).collect::<Result<Vec<_>, _>>()?;
        match extents[..] {
            [n] => Ok(Self::Uniform(n)),
            [a, b] => Ok(Self::Two(a, b)),
            [m, n, k] => Ok(Self::Three(m, n, k)),
            _ => Err(format!("size '{}' has {} extents; write N, or MxNxK for matmul", brief(text), extents.len())),
        }
    }
}

/// Largest extent: kernels index with 32 bits and exceed an extent by up to one tile.
const MAX_EXTENT: u64 = i32::MAX as u64;

/// Most sizes in a sweep; more is a typing error.
const MAX_SIZES: usize = 10_000;

/// Parses a sweep, such as `128,1000` or `128..8192`, into distinct sizes in the given order.
pub fn sweep(text: &str) -> Result<Vec<Size>, String> {
    if text.contains(',') && text.split(',').any(|item| item.trim().is_empty()) {
        return Err(format!("sizes '{}' include an empty one; remove a comma", brief(text)));
    }
    let mut sizes = vec![];
    for item in text.split(',') {
        sizes.extend(range(item.trim()).map_err(|error| match from_foreign_range(item) {
            Some(meant) => format!("malformed size '{}'; did you mean {meant}?", brief(item)),
            None => error,
        })?);
    }
    Ok(distinct(sizes))
}

/// Converts a range in another language's notation: `64...128` and `64:128` become `64..128`.
fn from_foreign_range(item: &str) -> Option<String> {
    let ranges = ["...", "..=", "..<", "-", ":"].iter().filter_map(|sign| item.split_once(sign));
    ranges.map(|(first, rest)| format!("{}..{}", first.trim(), rest.trim())).find(|meant| range(meant).is_ok())
}

/// Parses one comma-separated item of a sweep. `N=64` is 64, as for users' kernels; other axes have no name here.
fn range(item: &str) -> Result<Vec<Size>, String> {
    if let Some((axis, value)) = item.split_once('=') {
        return match axis.trim() {
            "N" | "n" => range(value.trim()),
            other => Err(format!(
                "size '{}' names the axis {}; built-in algorithms take N=1024 (or 1024), and a product 1000x70x130, which is \
                 MxNxK",
                brief(item),
                brief(other)
            )),
        };
    }
    let Some((first, rest)) = item.split_once("..") else { return Ok(vec![item.parse()?]) };
    let (last, step) = rest.split_once(':').map_or((rest, None), |(last, step)| (last, Some(step)));
    if [Some(first), Some(last), step].iter().flatten().any(|part| part.trim().is_empty()) {
        return Err(format!("size range '{}' is incomplete; write 128..8192 or 128..1024:128", brief(item)));
    }
    let step = match step {
        Some(text) => Some(extent(text).map_err(|_| {
            format!("step '{}' of size range '{}' must be a whole number from 1", brief(text), brief(item))
        })?),
        None => None,
    };
    let first = extent(first)?;
    let last = extent(last)?;
    if first > last {
        return Err(format!("size range '{item}' runs downwards; write {last}..{first}"));
    }
    // Without a step, sizes double, so there are at most 64.
    let last_index = step.map_or(64, |step| (last - first) / step);
    if last_index >= MAX_SIZES as u64 {
        return Err(format!(
            "size range '{item}' has {} sizes, at most {MAX_SIZES}; use a larger step",
            last_index + 1
        ));
    }
    if step.is_none() && first < last && first.saturating_mul(2) > last {
        return Err(format!(
            "size range '{item}' has only {first}, because sizes double; write {first},{last}, or add a step: {item}:{}",
            last - first
        ));
    }
    let next = |n: &u64| match step {
        Some(step) => n.checked_add(step),
        None => n.checked_mul(2),
    };
    Ok(std::iter::successors(Some(first), next).take_while(|n| *n <= last).map(Size::Uniform).collect())
}

/// Parses a positive integer, or a power such as `2^16`.
fn extent(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let quoted = brief(text);
    let malformed = || {
        format!(
            "malformed size '{quoted}'; write 1024 or 2^16, a list 128,1000, a sweep 128..8192 or 128..1024:128, or a product 1000x70x130"
        )
    };
    let too_large = || format!("size '{quoted}' is too large; sizes are below 2^31");
    let value = match text.split_once('^') {
        Some((base, exponent)) => {
            let base: u64 = base.parse().map_err(|_| malformed())?;
            let exponent: u32 = exponent.parse().map_err(|_| malformed())?;
            base.checked_pow(exponent).ok_or_else(too_large)?
        }
        None if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse::<u64>().map_err(|_| too_large())?
        }
        None => return Err(malformed()),
    };
    match value {
        0 => Err(format!("size '{text}' is zero; the smallest size is 1")),
        v if v > MAX_EXTENT => Err(too_large()),
        v => Ok(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str) -> Vec<String> {
        let sizes = super::sweep(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        sizes.iter().map(Size::to_string).collect()
    }

    #[test]
    fn every_documented_form_is_understood() {
        assert_eq!(sweep("1024"), ["1024"]);
        assert_eq!(sweep("128,1000"), ["128", "1000"]);
        assert_eq!(sweep("128..1024"), ["128", "256", "512", "1024"]);
        assert_eq!(sweep("128..512:128"), ["128", "256", "384", "512"]);
        assert_eq!(sweep("1000x70x130"), ["1000x70x130"]);
        assert_eq!(sweep("2^4x2^6"), ["16x64"]);
        assert_eq!(sweep("N=128..512,n = 64"), ["128", "256", "512", "64"]);
        assert_eq!(sweep("2^16..2^18"), ["65536", "131072", "262144"]);
    }

    #[test]
    fn a_range_ends_below_a_last_size_that_it_does_not_reach_and_sizes_come_once() {
        assert_eq!(sweep("100..1000"), ["100", "200", "400", "800"]);
        assert_eq!(sweep("64,32..128"), ["64", "32", "128"]);
    }

    #[test]
    fn malformed_sizes_are_refused_with_the_value_and_a_remedy() {
        for (text, expected) in [
            ("0", "size '0' is zero; the smallest size is 1"),
            ("2x3x4x5", "has 4 extents"),
            ("1024..128", "runs downwards; write 128..1024"),
            ("64..100", "has only 64, because sizes double; write 64,100, or add a step: 64..100:36"),
            ("", "malformed size ''"),
            ("32,64...128", "malformed size '64...128'; did you mean 64..128?"),
            ("64..=128", "'64..=128'; did you mean 64..128?"),
            ("64-128", "'64-128'; did you mean 64..128?"),
            ("64:128:32", "'64:128:32'; did you mean 64..128:32?"),
            ("64..-128", "malformed size '-128'"),
            ("-1", "malformed size '-1'"),
            ("M=64", "size 'M=64' names the axis M; built-in algorithms take N=1024"),
            ("N=", "malformed size ''"),
            ("12x", "size '12x' lacks an extent"),
            ("64,,32", "sizes '64,,32' include an empty one"),
            ("64..", "size range '64..' is incomplete"),
            ("64..128:", "size range '64..128:' is incomplete"),
            ("99999999999999999999", "too large"),
            ("2^64", "too large"),
            ("2147483648", "too large"),
            ("1..2000000000:1", "at most 10000"),
            ("1..10:0", "step '0' of size range '1..10:0' must be a whole number from 1"),
            ("0x10", "size '0x10' has an extent of zero; write decimal extents"),
            ("64x0x64", "has an extent of zero"),
        ] {
            let error = super::sweep(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
