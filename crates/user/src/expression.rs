//! Expressions over named values in shapes, grids, push constants and conditions: `cdiv(M, BM) * 4`, `BM * BN <= 16384
//! && K % 32 == 0`. They are evaluated as integers, or in f64 where a floating-point value is wanted.

use crate::basis::error;
use crate::basis::printable::brief;
use std::collections::BTreeSet;

/// Parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
    /// Text that was parsed, for messages.
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Integer(i128),
    Fraction(f64),
    Name(String),
    Negated(Box<Node>),
    Not(Box<Node>),
    Sqrt(Box<Node>),
    Log2(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Power,
    Cdiv,
    Min,
    Max,
}

impl Operator {
    /// Operators that are written between their operands. An operator comes before those that are a prefix of it,
    /// because the first match counts: `<=` before `<`.
    const ALL: [(&'static str, Self); 14] = [
        ("||", Self::Or),
        ("&&", Self::And),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Less),
        (">", Self::More),
        ("+", Self::Add),
        ("-", Self::Sub),
        ("*", Self::Mul),
        ("/", Self::Div),
        ("%", Self::Rem),
        ("^", Self::Power),
    ];

    /// Whether the truth of the left operand decides the result, so that the right one is not evaluated, as in C.
    fn is_decided_by(self, left: bool) -> bool {
        matches!((self, left), (Self::Or, true) | (Self::And, false))
    }

    /// Returns the binding strength: stronger operators take their operands first.
    fn strength(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal | Self::NotEqual | Self::Less | Self::AtMost | Self::More | Self::AtLeast => 3,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Rem => 5,
            Self::Power => 7,
            // Written as functions.
            Self::Cdiv | Self::Min | Self::Max => 8,
        }
    }
}

/// Binding strength of a sign, between products and powers.
const SIGN_STRENGTH: u8 = 6;

/// Names of functions.
const FUNCTIONS: [&str; 5] = ["cdiv", "min", "max", "sqrt", "log2"];

/// Longest text of an expression.
const MAX_BYTES: usize = 1 << 12;
/// Most operators of an expression. A chain of them nests to the left, and each level takes up to 2 KiB of stack.
const MAX_OPERATORS: usize = 256;
/// Most levels of parentheses, signs and arguments.
const MAX_NESTING: usize = 64;

impl Expression {
    /// Parses an expression. Errors quote the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("expression '{}' is longer than {MAX_BYTES} bytes; use shorter ones", brief(text)));
        }
        let mut parser = Parser { rest: text, operators: MAX_OPERATORS };
        let root = parser.expression(0, MAX_NESTING).map_err(|reason| quote(text, &reason))?;
        if let Some(c) = parser.rest.trim_start().chars().next() {
            let reason = if c == ',' {
                "holds several values; write a list: [64, 128]".to_string()
            } else {
                format!("goes on with '{}', where an operator was expected", c.escape_default())
            };
            return Err(quote(text, &reason));
        }
        Ok(Self { root, text: text.trim().to_string() })
    }

    /// Makes the expression of an integer.
    pub fn integer(value: i64) -> Self {
        Self { root: Node::Integer(value.into()), text: value.to_string() }
    }

    /// Returns the text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Collects the names that are used.
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        collect(&self.root, &mut names);
        names
    }

    /// Evaluates the expression as an integer; conditions are 1 or 0.
    pub fn value(&self, scope: &Values) -> Result<i64, String> {
        let value = self.wide_value(scope)?;
        let refused = |_| quote(&self.text, &format!("is {value}, beyond 64 bits with a sign: 2^63 - 1 is the most"));
        i64::try_from(value).map_err(refused)
    }

    /// Evaluates the expression as an integer in the range of `i64` and `u64` together.
    pub fn wide_value(&self, scope: &Values) -> Result<i128, String> {
        let value = integer(&self.root, scope).map_err(|reason| quote(&self.text, &reason))?;
        if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value) {
            return Ok(value);
        }
        Err(quote(&self.text, &format!("is {value}, beyond 64 bits: integers go from -2^63 to 2^64 - 1")))
    }

    /// Whether a `cdiv` of the expression rounds up: a last tile, or work-group, is not full. `None` without a `cdiv` that can
    /// be evaluated.
    pub fn rounds_up(&self, scope: &Values) -> Option<bool> {
        fn find(node: &Node, scope: &Values) -> Option<bool> {
            match node {
                Node::Integer(_) | Node::Fraction(_) | Node::Name(_) => None,
                Node::Negated(operand) | Node::Not(operand) | Node::Sqrt(operand) | Node::Log2(operand) => {
                    find(operand, scope)
                }
                Node::Binary(operator, left, right) => {
                    let quotient = (*operator == Operator::Cdiv).then(|| {
                        let [left, right] = [left, right].map(|operand| integer(operand, scope).ok());
                        Some(left?.checked_rem(right?)? != 0)
                    });
                    quotient
                        .flatten()
                        .into_iter()
                        .chain(find(left, scope))
                        .chain(find(right, scope))
                        .reduce(|a, b| a | b)
                }
            }
        }
        find(&self.root, scope)
    }

    /// Evaluates the expression in f64. The result is finite.
    pub fn number(&self, scope: &Values) -> Result<f64, String> {
        let value = fraction(&self.root, scope).map_err(|reason| quote(&self.text, &reason))?;
        if value.is_finite() { Ok(value) } else { Err(quote(&self.text, "is not a finite number")) }
    }
}

/// Returns the message for an expression: the text, and the reason as a predicate.
fn quote(text: &str, reason: &str) -> String {
    format!("expression '{}' {reason}", brief(text))
}

/// Adds the names that are used below `node`.
fn collect<'a>(node: &'a Node, names: &mut BTreeSet<&'a str>) {
    match node {
        Node::Integer(_) | Node::Fraction(_) => {}
        Node::Name(name) => {
            names.insert(name);
        }
        Node::Negated(operand) | Node::Not(operand) | Node::Sqrt(operand) | Node::Log2(operand) => {
            collect(operand, names);
        }
        Node::Binary(_, left, right) => {
            collect(left, names);
            collect(right, names);
        }
    }
}

/// Evaluates as an integer of 128 bits, so that `2^64 - 1` has no overflow. The error is a predicate of the expression.
fn integer(node: &Node, scope: &Values) -> Result<i128, String> {
    match node {
        Node::Integer(value) => Ok(*value),
        Node::Fraction(value) => Err(format!("has the fraction {value:?} where an integer is wanted")),
        Node::Name(name) => scope.get(name),
        Node::Negated(operand) => refuse_overflow(integer(operand, scope)?.checked_neg()),
        Node::Not(operand) => Ok(i128::from(integer(operand, scope)? == 0)),
        Node::Sqrt(operand) => {
            integer(operand, scope)?;
            Err("takes a square root where an integer is wanted".into())
        }
        // Rounded down, as divisions are.
        Node::Log2(operand) => match integer(operand, scope)? {
            value if value > 0 => Ok(value.ilog2().into()),
            value => Err(format!("takes the logarithm of {value}")),
        },
        Node::Binary(operator, left, right) => {
            let left = integer(left, scope)?;
            // The left operand may guard against a division by zero.
            let right = match &**right {
                _ if operator.is_decided_by(left != 0) => 0,
                Node::Fraction(value) if *operator == Operator::Div => {
                    return Err(format!("divides by {value:?}; `/` rounds down, and `cdiv(a, b)` rounds up"));
                }
                right => integer(right, scope)?,
            };
            apply(*operator, left, right)
        }
    }
}

/// Refuses `None`, for an overflow of 128 bits.
fn refuse_overflow(value: Option<i128>) -> Result<i128, String> {
    value.ok_or_else(|| "has a value beyond 128 bits".to_string())
}

fn apply(operator: Operator, left: i128, right: i128) -> Result<i128, String> {
    if right == 0 && matches!(operator, Operator::Div | Operator::Rem | Operator::Cdiv) {
        return Err("divides by zero".into());
    }
    match operator {
        Operator::Or => Ok(i128::from(left != 0 || right != 0)),
        Operator::And => Ok(i128::from(left != 0 && right != 0)),
        Operator::Equal => Ok(i128::from(left == right)),
        Operator::NotEqual => Ok(i128::from(left != right)),
        Operator::Less => Ok(i128::from(left < right)),
        Operator::AtMost => Ok(i128::from(left <= right)),
        Operator::More => Ok(i128::from(left > right)),
        Operator::AtLeast => Ok(i128::from(left >= right)),
        Operator::Add => refuse_overflow(left.checked_add(right)),
        Operator::Sub => refuse_overflow(left.checked_sub(right)),
        Operator::Mul => refuse_overflow(left.checked_mul(right)),
        Operator::Div => refuse_overflow(left.checked_div(right)),
        Operator::Rem => refuse_overflow(left.checked_rem(right)),
        Operator::Power if right < 0 => Err(format!("takes the power {right} where an integer is wanted")),
        Operator::Power => refuse_overflow(u32::try_from(right).ok().and_then(|right| left.checked_pow(right))),
        Operator::Min => Ok(left.min(right)),
        Operator::Max => Ok(left.max(right)),
        Operator::Cdiv => {
            // Division truncates, so an inexact quotient of equal signs is too small.
            let is_too_small = left.checked_rem(right).is_some_and(|rest| rest != 0) && (left < 0) == (right < 0);
            refuse_overflow(left.checked_div(right).map(|quotient| quotient + i128::from(is_too_small)))
        }
    }
}

/// Evaluates in f64. The error is a predicate of the expression.
fn fraction(node: &Node, scope: &Values) -> Result<f64, String> {
    let truth = |holds: bool| f64::from(u8::from(holds));
    Ok(match node {
        Node::Integer(value) => *value as f64,
        Node::Fraction(value) => *value,
        Node::Name(name) => scope.get(name)? as f64,
        Node::Negated(operand) => -fraction(operand, scope)?,
        Node::Not(operand) => truth(fraction(operand, scope)? == 0.0),
        Node::Sqrt(operand) => fraction(operand, scope)?.sqrt(),
        Node::Log2(operand) => fraction(operand, scope)?.log2(),
        Node::Binary(operator, left, right) => {
            let left = fraction(left, scope)?;
            let right = if operator.is_decided_by(left != 0.0) { 0.0 } else { fraction(right, scope)? };
            match operator {
                Operator::Or => truth(left != 0.0 || right != 0.0),
                Operator::And => truth(left != 0.0 && right != 0.0),
                Operator::Equal => truth(left == right),
                Operator::NotEqual => truth(left != right),
                Operator::Less => truth(left < right),
                Operator::AtMost => truth(left <= right),
                Operator::More => truth(left > right),
                Operator::AtLeast => truth(left >= right),
                Operator::Add => left + right,
                Operator::Sub => left - right,
                Operator::Mul => left * right,
                Operator::Div => left / right,
                Operator::Rem => left % right,
                Operator::Power => left.powf(right),
                Operator::Cdiv => (left / right).ceil(),
                Operator::Min => left.min(right),
                Operator::Max => left.max(right),
            }
        }
    })
}

/// Precedence-climbing parser. Errors are predicates of the expression.
struct Parser<'a> {
    /// Text that is not parsed yet.
    rest: &'a str,
    /// Number of operators that may still follow.
    operators: usize,
}

impl Parser<'_> {
    /// Parses an expression of operators that bind more strongly than `weakest`; `depth` more levels may be nested.
    fn expression(&mut self, weakest: u8, depth: usize) -> Result<Node, String> {
        let depth = depth.checked_sub(1).ok_or("is nested too deeply; use fewer parentheses")?;
        let mut left = self.operand(depth)?;
        while let Some((sign, operator)) = self.operator() {
            let strength = operator.strength();
            if strength <= weakest {
                break;
            }
            self.rest = &self.rest[sign.len()..];
            let too_many = || format!("has more than {MAX_OPERATORS} operators; use shorter ones");
            self.operators = self.operators.checked_sub(1).ok_or_else(too_many)?;
            // Powers are right-associative.
            let right = self.expression(strength - u8::from(operator == Operator::Power), depth)?;
            left = Node::Binary(operator, left.into(), right.into());
        }
        Ok(left)
    }

    /// Returns the next operator without consuming it.
    fn operator(&mut self) -> Option<(&'static str, Operator)> {
        self.rest = self.rest.trim_start();
        Operator::ALL.into_iter().find(|(sign, _)| self.rest.starts_with(sign))
    }

    /// Parses a number, a name, a call, or an operand in parentheses or with a sign.
    fn operand(&mut self, depth: usize) -> Result<Node, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else {
            return Err("ends where a number, a name or '(' was expected".into());
        };
        match first {
            '(' => {
                self.rest = &self.rest[1..];
                let inner = self.expression(0, depth)?;
                self.expect(')')?;
                Ok(inner)
            }
            '-' => {
                self.rest = &self.rest[1..];
                Ok(Node::Negated(self.expression(SIGN_STRENGTH, depth)?.into()))
            }
            // Binds more strongly than powers.
            '!' => {
                self.rest = &self.rest[1..];
                Ok(Node::Not(self.expression(SIGN_STRENGTH + 1, depth)?.into()))
            }
            '0'..='9' | '.' => self.literal(),
            'a'..='z' | 'A'..='Z' | '_' => self.name(depth),
            other => Err(format!("has '{}' where a number, a name or '(' was expected", other.escape_default())),
        }
    }

    /// Consumes a character, after spaces.
    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.rest = self.rest.trim_start();
        self.rest = self.rest.strip_prefix(wanted).ok_or_else(|| format!("lacks a '{wanted}'"))?;
        Ok(())
    }

    /// Parses a number: decimal, hexadecimal, or with a fraction.
    fn literal(&mut self) -> Result<Node, String> {
        let is_hexadecimal = self.rest.starts_with("0x");
        let mut previous = ' ';
        let end = self.rest.find(|c: char| {
            let is_exponent_sign = !is_hexadecimal && matches!(previous, 'e' | 'E') && matches!(c, '+' | '-');
            previous = c;
            !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || is_exponent_sign)
        });
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let plain = digits.replace('_', "");
        let malformed = || {
            if digits.contains("..") {
                return format!("has the range '{}'; write a list: [64, 128]", brief(digits));
            }
            format!("has the malformed number '{}'", brief(digits))
        };
        let too_large = |_| "has a number beyond 64 bits: 2^64 - 1 is the most".to_string();
        if let Some(digits) = plain.strip_prefix("0x") {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(malformed());
            }
            let value = u64::from_str_radix(digits, 16).map_err(too_large)?;
            return Ok(Node::Integer(value.into()));
        }
        if plain.bytes().all(|b| b.is_ascii_digit()) {
            let value: u64 = plain.parse().map_err(too_large)?;
            return Ok(Node::Integer(value.into()));
        }
        // Rust also parses `inf` and `nan`, which do not start with a digit.
        match plain.parse() {
            // `1e10` is whole; `16.0` may mean a division that is not rounded.
            Ok(value) if !plain.contains('.') && f64::fract(value) == 0.0 && value < 1e18 => {
                Ok(Node::Integer(value as i128))
            }
            Ok(value) if f64::is_finite(value) => Ok(Node::Fraction(value)),
            _ => Err(malformed()),
        }
    }

    /// Parses a name or a function call.
    fn name(&mut self, depth: usize) -> Result<Node, String> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if self.rest.starts_with('.') {
            return Err(format!("has a member of '{name}'; the size of a work-group is local_x, local_y and local_z"));
        }
        if !self.rest.starts_with('(') {
            return Ok(Node::Name(name.to_string()));
        }
        self.rest = &self.rest[1..];
        if !FUNCTIONS.contains(&name) {
            return Err(format!("has an {}", error::unknown("function", name, "", &FUNCTIONS)));
        }
        let first = Box::new(self.expression(0, depth)?);
        let node = match name {
            "sqrt" => Node::Sqrt(first),
            "log2" => Node::Log2(first),
            _ => {
                self.expect(',').map_err(|_| format!("gives {name} 1 of its 2 arguments"))?;
                let operator = match name {
                    "cdiv" => Operator::Cdiv,
                    "min" => Operator::Min,
                    _ => Operator::Max,
                };
                Node::Binary(operator, first, self.expression(0, depth)?.into())
            }
        };
        self.expect(')').map_err(|_| {
            let arguments = if let Node::Binary(..) = node { "2 arguments" } else { "1 argument" };
            if self.rest.starts_with(',') {
                return format!("gives {name} more than its {arguments}");
            }
            format!("is missing a ')' after the arguments of {name}")
        })?;
        Ok(node)
    }
}

/// Values by name, or the reasons why names have none here. The first value of a name counts.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<(String, Result<i128, String>)>);

impl Values {
    /// Makes the values of these axes.
    pub fn of(names: &[String], values: &[i64]) -> Self {
        Self(names.iter().cloned().zip(values.iter().map(|value| Ok(i128::from(*value)))).collect())
    }

    /// Adds a value, unless the name already has one.
    pub fn set(&mut self, name: &str, value: impl Into<i128>) {
        self.0.push((name.to_string(), Ok(value.into())));
    }

    /// Adds the reason why a name has no value here.
    pub fn set_reason(&mut self, name: &str, reason: &str) {
        self.0.push((name.to_string(), Err(reason.to_string())));
    }

    /// Iterates over the names that have values.
    fn known(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().filter_map(|(name, value)| value.as_ref().ok().map(|value| (name.as_str(), *value)))
    }

    /// Returns the value of `name`. The error lists the known names.
    pub fn get(&self, name: &str) -> Result<i128, String> {
        if let Some((_, value)) = self.known().find(|(known, _)| *known == name) {
            return Ok(value);
        }
        if let Some((_, Err(reason))) = self.0.iter().find(|(known, _)| known == name) {
            return Err(format!("names '{name}', {reason}"));
        }
        let mut names: Vec<&str> = self.known().map(|(name, _)| name).collect();
        names.dedup();
        if names.is_empty() {
            return Err(format!("names '{name}', and there are no axes; add {name} to [axes]"));
        }
        Err(format!("has an {}", error::unknown("name", name, "", &names)))
    }

    /// Replaces each name in braces, such as `{M}`, by its value.
    pub fn replace(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (name, value) in self.known() {
            text = text.replace(&format!("{{{name}}}"), &value.to_string());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Values {
        Values::of(&["M", "BM", "most"].map(String::from), &[100, 64, i64::MAX])
    }

    fn value(text: &str) -> Result<i64, String> {
        Expression::parse(text)?.value(&scope())
    }

    #[test]
    fn operators_bind_as_in_c_and_powers_from_the_right() {
        for (text, expected) in [
            ("1 + 2 * 3", 7),
            ("(1+2)*3", 9),
            ("7 - 2 - 1", 4),
            ("-7 / 2", -3),
            ("7 % 4", 3),
            ("2^3^2", 512),
            ("-2^2", -4),
            ("2^-0", 1),
            ("cdiv(M, BM)", 2),
            ("cdiv(-7, 2)", -3),
            ("cdiv(128,64)", 2),
            ("log2(M) + log2(1)", 6),
            ("min(M, 3) + max(1, BM)", 67),
            ("BM*BM<=4096 && M%4==0", 1),
            ("M < 100 || !(BM != 64)", 1),
            ("!1 + 1", 1),
            ("0x10 + 1_000", 1016),
            ("0xFFFFFFFFFFFFFFFF - 18446744073709551610", 5),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        let wide = |text: &str| Expression::parse(text).and_then(|expression| expression.wide_value(&scope()));
        let limits = "beyond 64 bits: integers go from -2^63 to 2^64 - 1";
        assert_eq!(wide("2^64"), Err(format!("expression '2^64' is 18446744073709551616, {limits}")));
        assert_eq!(wide("-2^63 - 1"), Err(format!("expression '-2^63 - 1' is -9223372036854775809, {limits}")));
        assert_eq!(wide("2^200"), Err("expression '2^200' has a value beyond 128 bits".into()));
        assert_eq!(wide("cdiv(-2^127, -1)"), Err("expression 'cdiv(-2^127, -1)' has a value beyond 128 bits".into()));
        for text in ["2^64 - 1", "2^63 + (2^63 - 1)", "2 * most + 1", "2^70 / 64 - 1"] {
            assert_eq!(wide(text), Ok(u64::MAX.into()), "{text}");
        }
    }

    #[test]
    fn fractions_are_only_for_floats() {
        let number = |text: &str| Expression::parse(text).and_then(|e| e.number(&scope()));
        assert_eq!(number("1 / sqrt(BM)"), Ok(0.125));
        assert_eq!(number("1e-5"), Ok(1e-5));
        assert_eq!(number("2.5e+1 - .5"), Ok(24.5));
        assert_eq!(number("1/0").expect_err("infinite"), "expression '1/0' is not a finite number");
    }

    #[test]
    fn malformed_expressions_are_quoted_with_the_reason() {
        // Operators of equal strength nest on the left.
        let chain = |operators: usize| format!("1{}", "-1".repeat(operators));
        assert_eq!(value(&chain(MAX_OPERATORS)), Ok(1 - MAX_OPERATORS as i64));
        let long = [chain(MAX_OPERATORS + 1), "(".repeat(1000), "-".repeat(1000), "1+".repeat(4000)];
        let malformed = "|1 +|(1|1 2|M / (BM - 64)|M % 0|log2(M - 100)|cdiv(M, 0)|most + 1|2^63|2^(-1)|99999999999999999999|\
                         0x10000000000000000|0x|64, 128|32..256|ceil(M)|cdvi(M, 2)|cdiv(M)|min(1,2,3)|cdiv(M, blockDim.x)|M/16.0|1x|M & 3|N|é|0.5|sqrt(4)";
        let said = malformed.split('|').chain(long.iter().map(String::as_str)).map(|text| value(text).expect_err(text));
        insta::assert_snapshot!(said.collect::<Vec<_>>().join("\n"), @r"
        expression '' ends where a number, a name or '(' was expected
        expression '1 +' ends where a number, a name or '(' was expected
        expression '(1' lacks a ')'
        expression '1 2' goes on with '2', where an operator was expected
        expression 'M / (BM - 64)' divides by zero
        expression 'M % 0' divides by zero
        expression 'log2(M - 100)' takes the logarithm of 0
        expression 'cdiv(M, 0)' divides by zero
        expression 'most + 1' is 9223372036854775808, beyond 64 bits with a sign: 2^63 - 1 is the most
        expression '2^63' is 9223372036854775808, beyond 64 bits with a sign: 2^63 - 1 is the most
        expression '2^(-1)' takes the power -1 where an integer is wanted
        expression '99999999999999999999' has a number beyond 64 bits: 2^64 - 1 is the most
        expression '0x10000000000000000' has a number beyond 64 bits: 2^64 - 1 is the most
        expression '0x' has the malformed number '0x'
        expression '64, 128' holds several values; write a list: [64, 128]
        expression '32..256' has the range '32..256'; write a list: [64, 128]
        expression 'ceil(M)' has an unknown function 'ceil'; did you mean 'cdiv'? available: cdiv, min, max, sqrt, log2
        expression 'cdvi(M, 2)' has an unknown function 'cdvi'; did you mean 'cdiv'? available: cdiv, min, max, sqrt, log2
        expression 'cdiv(M)' gives cdiv 1 of its 2 arguments
        expression 'min(1,2,3)' gives min more than its 2 arguments
        expression 'cdiv(M, blockDim.x)' has a member of 'blockDim'; the size of a work-group is local_x, local_y and local_z
        expression 'M/16.0' divides by 16.0; `/` rounds down, and `cdiv(a, b)` rounds up
        expression '1x' has the malformed number '1x'
        expression 'M & 3' goes on with '&', where an operator was expected
        expression 'N' has an unknown name 'N'; available: M, BM, most
        expression 'é' has '\u{e9}' where a number, a name or '(' was expected
        expression '0.5' has the fraction 0.5 where an integer is wanted
        expression 'sqrt(4)' takes a square root where an integer is wanted
        expression '1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-…' has more than 256 operators; use shorter ones
        expression '((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((…' is nested too deeply; use fewer parentheses
        expression '------------------------------------------------------------…' is nested too deeply; use fewer parentheses
        expression '1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+…' is longer than 4096 bytes; use shorter ones
        ");
    }

    #[test]
    fn names_are_collected_from_all_operands() {
        let rounds_up = |text: &str| Expression::parse(text).expect("an expression").rounds_up(&scope());
        assert_eq!([rounds_up("cdiv(M, 3) * 2"), rounds_up("cdiv(M, 1) + cdiv(7, 2)")], [Some(true); 2]);
        assert_eq!(
            [rounds_up("-cdiv(M, 1)"), rounds_up("M / 3"), rounds_up("cdiv(unknown, 2)")],
            [Some(false), None, None]
        );
        let expression = Expression::parse("cdiv(M, BM) + -x * !M").expect("an expression");
        assert_eq!(expression.names().into_iter().collect::<Vec<_>>(), ["BM", "M", "x"]);
    }
}
