//! Options of earlier versions for the fields of a description, each translated to `--set`.

use crate::brief;
use crate::user::written::{inline, key, line};
use crate::user::{ENDINGS, split};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use std::path::Path;
use toml::Value;

/// Old options of `run` and the keys that they set, in the order in which they are applied. NAME stands for the text
/// before the `=`.
const OPTIONS: [(&str, &str); 16] = [
    ("spec", "spec.NAME"),
    ("where", "where.NAME"),
    ("push", "push.NAME"),
    ("uniform", "uniform.BLOCK.NAME"),
    ("buffer", "buffer.NAME"),
    ("check", "buffer.NAME.check"),
    ("groups", "dispatch.groups"),
    ("flops", "work.flops"),
    ("bytes", "work.bytes"),
    ("inputs-by", "inputs.command"),
    ("bind", "kernel.bind.NAME"),
    ("subgroup", "kernel.subgroup"),
    ("vulkan", "kernel.vulkan"),
    ("right-by", "reference"),
    ("right", "reference"),
    ("role", "reference.roles.NAME"),
];

/// Old options of a command line, translated to values of `--set`.
#[derive(Clone, Debug, Default)]
pub(crate) struct OldOptions(pub(crate) Vec<String>);

impl clap::Args for OldOptions {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, (name, _)| {
            let option = Arg::new(*name).long(*name).action(ArgAction::Append).hide(true);
            command.arg(match *name {
                "push" | "uniform" => option.allow_hyphen_values(true),
                "right" => option.alias("reference"),
                "right-by" => option.alias("reference-command").conflicts_with("right"),
                _ => option,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OldOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (option, _) in OPTIONS {
            for text in matches.get_many::<String>(option).into_iter().flatten() {
                let sets = as_sets(option, text);
                self.0.extend(sets.map_err(|message| clap::Error::raw(ErrorKind::ValueValidation, message + "\n"))?);
            }
        }
        Ok(())
    }
}

/// Translates an option with this value to values of `--set`. The error names the key to set.
pub(super) fn as_sets(option: &str, text: &str) -> Result<Vec<String>, String> {
    let template = OPTIONS.iter().find(|(name, _)| *name == option).map_or("", |(_, key)| key);
    let malformed = || {
        let text = brief(text);
        // `--reference` is the same option here, and another one of `report`.
        if option == "right" && Path::new(&*text).extension().is_some_and(|ending| ending == "csv" || ending == "json")
        {
            return format!(
                "'{text}' has figures: save the run with --json RUN.json, and `gpukern report RUN.json --reference {text}` \
                 shows them beside yours. What an answer should be is [reference] of the description"
            );
        }
        format!(
            "--{option} '{text}' cannot be read; write --set '{template}=…', which `gpukern help description` explains"
        )
    };
    let (name, value) = match (option, text.split_once('=')) {
        ("where", _) => (text, text),
        _ if !template.contains("NAME") => ("", text),
        (_, Some((name, value))) if !name.trim().is_empty() => (name.trim(), value.trim()),
        _ => return Err(malformed()),
    };
    if value.is_empty() {
        return Err(malformed());
    }
    let (block, member) = name.split_once('.').unwrap_or((name, ""));
    let field = match option {
        "uniform" if member.is_empty() => return Err(malformed()),
        "uniform" => template.replace("BLOCK", &key(block)).replace("NAME", &key(member)),
        _ => template.replace("NAME", &key(name)),
    };
    let value = match option {
        "buffer" => return buffer_sets(&field, value).ok_or_else(malformed),
        "check" => check_value(value).ok_or_else(malformed)?,
        "right" => format!("{{ {} }}", reference_fields(value).ok_or_else(malformed)?),
        "right-by" => format!("{{ command = {} }}", line(value)),
        "where" | "inputs-by" | "vulkan" => line(value),
        _ => list(value),
    };
    Ok(vec![format!("{field}={value}")])
}

/// Formats numbers and expressions between commas as TOML.
fn list(text: &str) -> String {
    let item = |text: &&str| match text.parse::<i64>() {
        Ok(number) if number.to_string() == *text => (*text).to_string(),
        _ => line(text),
    };
    match split(text).as_slice() {
        [one] => item(one),
        many => format!("[{}]", many.iter().map(item).collect::<Vec<_>>().join(", ")),
    }
}

/// Translates `TYPE[SHAPE]:FILL`; `None` if it is malformed.
fn buffer_sets(field: &str, text: &str) -> Option<Vec<String>> {
    let (element, rest) = text.split_once('[')?;
    let (shape, rest) = rest.split_once(']')?;
    let mut sets = vec![format!("{field}.type={}", line(element.trim())), format!("{field}.shape={}", list(shape))];
    match rest.trim() {
        "" => {}
        rest => match rest.strip_prefix(':')?.trim() {
            "scratch" => sets.push(format!("{field}.scratch=true")),
            fill => sets.push(format!("{field}.fill={}", line(fill))),
        },
    }
    Some(sets)
}

/// Formats `rtol:1e-4,atol:1e-5`, or the name of a check, as TOML; `None` if it is malformed.
fn check_value(text: &str) -> Option<String> {
    if ["exact", "set"].contains(&text) {
        return Some(line(text));
    }
    let mut fields = vec![];
    for part in text.split(',') {
        let (kind, limit) = part.split_once(':')?;
        let kind = kind.trim();
        let limit = match limit.trim() {
            buffer if kind == "picks" => line(buffer),
            limit => match limit.parse::<i64>() {
                Ok(whole) => whole.to_string(),
                Err(_) => inline(&Value::Float(limit.parse().ok()?)),
            },
        };
        fields.push(format!("{} = {limit}", key(kind)));
    }
    Some(format!("{{ {} }}", fields.join(", ")))
}

/// Translates a file, a kernel, or an algorithm with its extents to fields of `[reference]`; `None` if it is none of these.
fn reference_fields(text: &str) -> Option<String> {
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
    fn old_options_translate_to_set() {
        for (name, text, expected) in [
            ("spec", "BM=64,0x80", r#"spec.BM=[64, "0x80"]"#),
            ("where", "N < 4", r#"where."N < 4"="N < 4""#),
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
            ("check", "D=rtol:1e-4,atol:.5", "buffer.D.check={ rtol = 1e-4, atol = 0.5 }"),
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
            assert_eq!(as_sets(name, text).map(|sets| sets.join("; ")), Ok(expected.to_string()), "--{name} {text}");
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
            let error = as_sets(name, text).expect_err(text);
            assert!(error.starts_with(&format!("--{name} '{text}' cannot be read; write --set '")), "{error}");
        }
    }
}
