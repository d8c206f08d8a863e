//! The values that expressions may use by name.

use crate::basis::error;

/// Names with their values; the first of a name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    known: Vec<(String, i64)>,
    /// Names that mean something else, with what is to be said of them.
    barred: Vec<(String, String)>,
}

impl Values {
    /// The values of these axes.
    pub(crate) fn of(names: &[String], values: &[i64]) -> Self {
        Self { known: names.iter().cloned().zip(values.iter().copied()).collect(), barred: vec![] }
    }

    /// Adds a value, which counts where nothing has the name yet.
    pub(crate) fn set(&mut self, name: &str, value: i64) {
        self.known.push((name.to_string(), value));
    }

    /// Says why a name has no value here.
    pub(crate) fn bar(&mut self, name: &str, reason: &str) {
        self.barred.push((name.to_string(), reason.to_string()));
    }

    /// The value of `name`.
    ///
    /// # Errors
    /// A message with the names that there are.
    pub(crate) fn get(&self, name: &str) -> Result<i64, String> {
        if let Some((_, value)) = self.known.iter().find(|(known, _)| known == name) {
            return Ok(*value);
        }
        if let Some((_, reason)) = self.barred.iter().find(|(barred, _)| barred == name) {
            return Err(format!("names '{name}', {reason}"));
        }
        let mut names: Vec<&str> = self.known.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        if names.is_empty() {
            return Err(format!("names '{name}', and there are no axes; add {name} to [axes]"));
        }
        Err(format!("has an {}", error::unknown("name", name, "", &names)))
    }

    /// `text` with the value of each name in braces, as in `{M}`.
    pub(crate) fn replace(&self, text: &str) -> String {
        self.known
            .iter()
            .fold(text.to_string(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()))
    }
}
