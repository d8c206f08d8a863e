//! Options that earlier versions had for the fields of a description, each translated to `--set`.

use crate::basis::printable::{brief, shown_word};
use crate::run::written::{key, line};
use crate::run::{ENDINGS, split};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use std::path::Path;
use toml::Value;

/// An option of `run` in earlier versions.
struct OldOption {
    name: &'static str,
    alias: Option<&'static str>,
    /// An example of what to write instead.
    example: &'static str,
}

const fn old(name: &'static str, example: &'static str) -> OldOption {
    OldOption { name, alias: None, example }
}

/// The options in the order in which they change a description.
const OPTIONS: [OldOption; 16] = [
    old("spec", "spec.BM=[64,128]"),
    old("where", "where.small=N < 4096"),
    old("push", "push.stride=K"),
    old("uniform", "uniform.Params.width=W"),
    old("buffer", r#"buffer.A={ type = "f32", shape = ["M", "K"], fill = "varied" }"#),
    old("check", "buffer.D.check={ rtol = 1e-4, atol = 1e-5 }"),
    old("groups", r#"dispatch.groups=["cdiv(N, 64)", 1, 1]"#),
    old("flops", "work.flops=2*N"),
    old("bytes", "work.bytes=12*N"),
    old("inputs-by", "inputs.command=python3 make.py {out}"),
    old("bind", "kernel.bind.A=weights"),
    old("subgroup", "kernel.subgroup=[16,32]"),
    old("vulkan", "kernel.vulkan=1.3"),
    OldOption { alias: Some("reference-command"), ..old("right-by", "reference.command=python3 ref.py {in} {out}") },
    OldOption {
        alias: Some("reference"),
        ..old("right", r#"reference={ builtin = "matmul", size = ["M", "N", "K"] }"#)
    },
    old("role", "reference.roles.C=D"),
];

/// The old options of a command line, as `--set` takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OldOptions(pub(crate) Vec<String>);

impl clap::Args for OldOptions {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, own| {
            let takes_formula = ["push", "uniform"].contains(&own.name);
            let option = Arg::new(own.name).long(own.name).action(ArgAction::Append).hide(true);
            let option = option.aliases(own.alias).allow_hyphen_values(takes_formula);
            command.arg(if own.name == "right-by" { option.conflicts_with("right") } else { option })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OldOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut sets = vec![];
        for option in &OPTIONS {
            let values = matches.get_many::<String>(option.name).into_iter().flatten();
            for (number, text) in (1..).zip(values) {
                let set = option.as_sets(number, text);
                sets.extend(set.map_err(|message| clap::Error::raw(ErrorKind::ValueValidation, message + "\n"))?);
            }
        }
        Ok(Self(sets))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns `--spec NAME=VALUES` as `--set` takes it.
///
/// # Errors
/// When the text is not that.
pub(super) fn spec(text: &str) -> Result<Vec<String>, String> {
    OPTIONS[0].as_sets(1, text)
}

impl OldOption {
    /// Returns the changes that the option with this value, the `number`th of its name, asks for.
    fn as_sets(&self, number: usize, text: &str) -> Result<Vec<String>, String> {
        let malformed = || {
            let Self { name, example, .. } = self;
            format!("--{name} '{}' cannot be read; write --set {}", brief(text), shown_word(example))
        };
        let (name, value) = text.split_once('=').map_or((text, ""), |(name, value)| (name.trim(), value.trim()));
        let named = !name.is_empty() && !value.is_empty();
        let of = |table: &str| if named { Ok(format!("{table}.{}", key(name))) } else { Err(malformed()) };
        let set = match self.name {
            "spec" => format!("{}={}", of("spec")?, list(value)),
            "where" => format!("where.option_{number}={}", line(text)),
            "push" => format!("{}={}", of("push")?, item(value)),
            "uniform" => {
                let (block, member) = name.split_once('.').filter(|_| named).ok_or_else(malformed)?;
                format!("uniform.{}.{}={}", key(block), key(member), item(value))
            }
            "buffer" => return buffer(&of("buffer")?, value).ok_or_else(malformed),
            "check" => format!("{}.check={}", of("buffer")?, check(value).ok_or_else(malformed)?),
            "groups" => format!("dispatch.groups={}", list(text)),
            "flops" | "bytes" => format!("work.{}={}", self.name, item(text)),
            "inputs-by" => format!("inputs.command={}", line(text)),
            "bind" => format!("{}={}", of("kernel.bind")?, line(value)),
            "subgroup" => format!("kernel.subgroup={}", list(text)),
            "vulkan" => format!("kernel.vulkan={}", line(text)),
            "right-by" => format!("reference={{ command = {} }}", line(text)),
            "right" => format!("reference={{ {} }}", right(text).ok_or_else(malformed)?),
            _ => format!("{}={}", of("reference.roles")?, line(value)),
        };
        Ok(vec![set])
    }
}

/// Returns a number or an expression as TOML.
fn item(text: &str) -> String {
    if text.parse::<i64>().is_ok_and(|number| number.to_string() == text) { text.into() } else { line(text) }
}

/// Returns numbers and expressions between commas as TOML.
fn list(text: &str) -> String {
    match split(text).as_slice() {
        [one] => item(one),
        many => format!("[{}]", many.iter().map(|own| item(own)).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the changes of `TYPE[SHAPE]:FILL`.
fn buffer(table: &str, text: &str) -> Option<Vec<String>> {
    let (element, rest) = text.split_once('[')?;
    let (shape, rest) = rest.split_once(']')?;
    let mut sets = vec![format!("{table}.type={}", line(element.trim())), format!("{table}.shape={}", list(shape))];
    match rest.trim() {
        "" => {}
        rest => match rest.strip_prefix(':')?.trim() {
            "scratch" => sets.push(format!("{table}.scratch=true")),
            fill => sets.push(format!("{table}.fill={}", line(fill))),
        },
    }
    Some(sets)
}

/// Returns `rtol:1e-4,atol:1e-5`, or the name of a check, as TOML.
fn check(text: &str) -> Option<String> {
    if ["exact", "set"].contains(&text) {
        return Some(line(text));
    }
    let figures = text.split(',').map(|part| {
        let (kind, figure) = part.split_once(':')?;
        let (kind, figure) = (kind.trim(), figure.trim());
        let figure = match (kind, figure.parse::<i64>(), figure.parse()) {
            ("picks", ..) => line(figure),
            (_, Ok(whole), _) => whole.to_string(),
            (_, _, Ok(number)) => Value::Float(number).to_string(),
            _ => return None,
        };
        Some(format!("{} = {figure}", key(kind)))
    });
    Some(format!("{{ {} }}", figures.collect::<Option<Vec<_>>>()?.join(", ")))
}

/// Returns the field of `[reference]` that a file, a kernel or an algorithm with its extents is.
fn right(text: &str) -> Option<String> {
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (ending, text.split_once('[')) {
        ("npy" | "bin", _) => Some(format!("file = {}", line(text))),
        (ending, _) if ENDINGS.contains(&ending) => Some(format!("kernel = {}", line(text))),
        (_, Some((name, extents))) => {
            Some(format!("builtin = {}, size = {}", line(name.trim()), list(extents.strip_suffix(']')?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_what_set_takes() {
        let read = |name: &str, text: &str| {
            let option = OPTIONS.iter().find(|own| own.name == name).expect(name);
            option.as_sets(1, text).map(|sets| sets.join("; "))
        };
        for (name, text, expected) in [
            ("spec", "BM=64,0x80", r#"spec.BM=[64, "0x80"]"#),
            ("where", "N < 4", r#"where.option_1="N < 4""#),
            ("push", "size.x=2*K", r#"push."size.x"="2*K""#),
            ("uniform", "P.m[1].x=-1", r#"uniform.P."m[1].x"=-1"#),
            (
                "buffer",
                "A=f32[M,cdiv(K,2)]:uniform(-1,1)",
                r#"buffer.A.type="f32"; buffer.A.shape=["M", "cdiv(K,2)"]; buffer.A.fill="uniform(-1,1)""#,
            ),
            (
                "buffer",
                "0.1=bytes[64]:scratch",
                r#"buffer."0.1".type="bytes"; buffer."0.1".shape=64; buffer."0.1".scratch=true"#,
            ),
            ("check", "D=rtol:1e-4,atol:.5", "buffer.D.check={ rtol = 0.0001, atol = 0.5 }"),
            ("check", "D=ulp:4", "buffer.D.check={ ulp = 4 }"),
            ("check", "D=picks:KEYS", r#"buffer.D.check={ picks = "KEYS" }"#),
            ("check", "D=set", r#"buffer.D.check="set""#),
            ("groups", "cdiv(M,BM),1", r#"dispatch.groups=["cdiv(M,BM)", 1]"#),
            ("flops", "2*N", r#"work.flops="2*N""#),
            ("inputs-by", "make 'x'", r#"inputs.command="make 'x'""#),
            ("bind", "X=T+4*N", r#"kernel.bind.X="T+4*N""#),
            ("subgroup", "16,32", "kernel.subgroup=[16, 32]"),
            ("vulkan", "1.3", r#"kernel.vulkan="1.3""#),
            ("right-by", "./right {out}", r#"reference={ command = "./right {out}" }"#),
            ("right", "d.npy", r#"reference={ file = "d.npy" }"#),
            ("right", "k.comp", r#"reference={ kernel = "k.comp" }"#),
            ("right", "matmul[M,N,K]", r#"reference={ builtin = "matmul", size = ["M", "N", "K"] }"#),
            ("role", "C=D", r#"reference.roles.C="D""#),
        ] {
            assert_eq!(read(name, text), Ok(expected.to_string()), "--{name} {text}");
        }
        for (name, text) in [
            ("spec", "BM="),
            ("uniform", "width=1"),
            ("buffer", "A"),
            ("buffer", "A=f32"),
            ("buffer", "A=f32[1]zero"),
            ("check", "A=close"),
            ("check", "A=ulp:x"),
            ("right", "matmul"),
            ("right", "matmul[N"),
        ] {
            let said = read(name, text).expect_err(text);
            let example = OPTIONS.iter().find(|own| own.name == name).expect(name).example;
            let expected = format!("--{name} '{text}' cannot be read; write --set {}", shown_word(example));
            assert_eq!(said, expected);
        }
    }
}
