//! Wrong answers that the check of a case would accept as well: how weak the check is.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most mutations of an output that the sentence lists.
const MAX_LISTED: usize = 4;

/// Way in which a mistake of a kernel changes a correct answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mutation {
    /// Every element is replaced by its neighbor.
    Neighbors,
    /// Every row is replaced by its neighbor.
    NeighborRows,
    /// The first and the last quarter are swapped.
    BlocksExchanged,
    /// One element in a thousand is replaced by its neighbor.
    FewNeighbors,
    /// The output keeps its contents from before the run.
    FirstContents,
    /// The elements of the last work-group keep their contents from before the run.
    LastGroupMissing,
    /// Zeros.
    Zeros,
    /// The first element's value everywhere.
    OneNumber,
    /// Zeros in one of a few parts.
    ZerosInPart,
    /// All but the four leading significant bits are cleared, 13 for f64.
    LowBitsCleared,
    /// Every number changes its sign.
    SignsFlipped,
}

impl Mutation {
    pub const ALL: [Self; 11] = [
        Self::Neighbors,
        Self::NeighborRows,
        Self::BlocksExchanged,
        Self::FewNeighbors,
        Self::FirstContents,
        Self::LastGroupMissing,
        Self::Zeros,
        Self::OneNumber,
        Self::ZerosInPart,
        Self::LowBitsCleared,
        Self::SignsFlipped,
    ];

    /// Whether the mutation only moves elements.
    pub fn moves(self) -> bool {
        matches!(self, Self::Neighbors | Self::NeighborRows | Self::BlocksExchanged | Self::FewNeighbors)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Neighbors => "every element from its neighbor",
            Self::NeighborRows => "every row from its neighbor",
            Self::BlocksExchanged => "two blocks exchanged",
            Self::FewNeighbors => "one element in a thousand from its neighbor",
            Self::FirstContents => "what it held before the run",
            Self::LastGroupMissing => "the last work-group's part missing",
            Self::Zeros => "zeros",
            Self::OneNumber => "the same number everywhere",
            Self::ZerosInPart => "zeros in one part",
            Self::LowBitsCleared => "low bits cleared",
            Self::SignsFlipped => "signs flipped",
        })
    }
}

/// Mutation of an output that the check of a case accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AcceptedMutation {
    /// Name of the output.
    pub buffer: String,
    pub mutation: Mutation,
    /// Column that the mutation was confined to, if rows are short enough to be structures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<u32>,
    /// Share of the changed elements that are accepted; 1 if the answer as a whole is.
    pub share: f64,
    /// Fills of the inputs and tolerance of the output: `iota; rtol = 1e-4, atol = 1e-5`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
}

impl AcceptedMutation {
    /// Returns the sentence about the accepted mutations of a case, with a remedy; `None` if there are none.
    pub fn sentence(all: &[Self]) -> Option<String> {
        let mut buffers: Vec<(&str, &str)> = vec![];
        for Self { buffer, check, .. } in all {
            if !buffers.contains(&(buffer, check)) {
                buffers.push((buffer, check));
            }
        }
        let of_buffer = |(buffer, check): (&str, &str)| {
            let mut own: Vec<_> = all.iter().filter(|own| own.buffer == buffer).collect();
            own.sort_by_key(|own| own.share < 1.0);
            let more = match own.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!(", or {more} more mistakes"),
            };
            let list = own.iter().take(MAX_LISTED).map(ToString::to_string).collect::<Vec<_>>().join(", or ");
            let check = if check.is_empty() { String::new() } else { format!(" ({check})") };
            format!("in {buffer} {list}{more}{check}")
        };
        let list = buffers.into_iter().map(of_buffer).collect::<Vec<_>>().join("; ");
        let moved = all.iter().any(|own| own.mutation.moves());
        let remedy = match (moved, all.iter().any(|own| !own.mutation.moves())) {
            (true, false) => "choose a fill whose neighbors differ by more than the tolerance, or check = \"exact\"",
            (false, _) => "choose a smaller tolerance, or one for each column, or another fill",
            (true, true) => "choose a smaller tolerance, or a fill whose elements differ by more than it",
        };
        (!list.is_empty()).then(|| format!("this check would also accept: {list}; {remedy}"))
    }
}

impl fmt::Display for AcceptedMutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutation.fmt(f)?;
        if let Some(member) = self.member {
            write!(f, " in column {member}")?;
        }
        match self.share {
            share if share >= 1.0 => Ok(()),
            share if share >= 0.5 => f.write_str(" (in most places)"),
            _ => f.write_str(" (in some places)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_buffer_its_mutations_and_a_remedy() {
        let of = |buffer: &str, mutation, member, share| AcceptedMutation {
            buffer: buffer.into(),
            mutation,
            member,
            share,
            check: "iota; rtol = 1e-4".into(),
        };
        assert_eq!(AcceptedMutation::sentence(&[]), None);
        let one = [of("Y", Mutation::Neighbors, None, 0.85)];
        let two = [of("Y", Mutation::Zeros, Some(1), 1.0), of("Z", Mutation::FirstContents, None, 1.0)];
        let said = [&one[..], &two].map(|mutations| AcceptedMutation::sentence(mutations).expect("a sentence"));
        insta::assert_snapshot!(said.join("\n"), @r#"
        this check would also accept: in Y every element from its neighbor (in most places) (iota; rtol = 1e-4); choose a fill whose neighbors differ by more than the tolerance, or check = "exact"
        this check would also accept: in Y zeros in column 1 (iota; rtol = 1e-4); in Z what it held before the run (iota; rtol = 1e-4); choose a smaller tolerance, or one for each column, or another fill
        "#);
    }
}
