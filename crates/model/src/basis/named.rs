//! Names of the values of enumerations.

/// Whether a user means `name`, which is in British English, by `text`, which may be in American English.
pub fn is_named(name: &str, text: &str) -> bool {
    name == text || name.replace("bour", "bor").replace("ised", "ized") == text
}

/// Implements `ALL`, `name`, `Display` and `FromStr` for an enumeration, which messages call `$what`.
#[macro_export]
macro_rules! named {
    ($type:ident, $what:literal, [$($value:ident $name:literal),+ $(,)?]) => {
        impl $type {
            /// Values, in the order that messages list them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name by which users know the value.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let value = Self::ALL.into_iter().find(|value| $crate::basis::named::is_named(value.name(), text));
                value.ok_or_else(|| $crate::basis::error::unknown($what, text, "", &Self::ALL.map(Self::name)))
            }
        }
    };
}
pub use named;
