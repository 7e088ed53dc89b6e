//! User code: a scenario names it, and the program that runs the scenario provides it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A constructor of instances of user code, each from its own setup.
pub type Maker<S, T> = Arc<dyn Fn(S) -> Box<T> + Send + Sync>;

/// User code as a scenario names it, and its constructor once the code is bound. `S` is the setup of an
/// instance, `T` its interface.
pub struct UserCode<S, T: ?Sized> {
    name: UserName,
    maker: Option<Maker<S, T>>,
}

/// `python:MODULE.CLASS`, or `rust:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(String);

/// The languages of user code, with an example of a name in each.
const LANGUAGES: [(&str, &str); 2] = [("python", "python:my_module.Mine"), ("rust", "rust:mine")];

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (language, place) = text.split_once(':').unwrap_or((&text, ""));
        let Some((_, example)) = LANGUAGES.into_iter().find(|(name, _)| *name == language) else {
            return Err(format!(
                "{text:?} does not name custom code; write for example \"{}\"",
                LANGUAGES[0].1
            ));
        };
        let is_whole = match language {
            "python" => place.split('.').count() > 1 && place.split('.').all(|part| !part.is_empty()),
            _ => !place.is_empty(),
        };
        if is_whole {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is incomplete; write for example \"{example}\""))
        }
    }
}

impl From<UserName> for String {
    fn from(name: UserName) -> Self {
        name.0
    }
}

impl<S, T: ?Sized> UserCode<S, T> {
    /// Code that makes its instances by `maker`.
    pub fn new(name: UserName, maker: Maker<S, T>) -> Self {
        Self { name, maker: Some(maker) }
    }

    /// Its name in the scenario.
    pub fn name(&self) -> &str {
        &self.name.0
    }

    /// Binds the code: `maker` creates its instances.
    pub fn bind(&mut self, maker: Maker<S, T>) {
        self.maker = Some(maker);
    }

    /// Creates an instance; raises a [`Failure`] if the code is not bound.
    pub fn make(&self, setup: S) -> Box<T> {
        match &self.maker {
            Some(maker) => maker(setup),
            None => Failure::new(format!("{self}: the program that runs the scenario does not provide it"))
                .raise(),
        }
    }
}

impl<S, T: ?Sized> Clone for UserCode<S, T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), maker: self.maker.clone() }
    }
}

impl<S, T: ?Sized> PartialEq for UserCode<S, T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<S, T: ?Sized> Eq for UserCode<S, T> {}

impl<S, T: ?Sized> fmt::Debug for UserCode<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserCode({})", self.name.0)
    }
}

impl<S, T: ?Sized> fmt::Display for UserCode<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.0)
    }
}

impl<S, T: ?Sized> Serialize for UserCode<S, T> {
    fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.name.serialize(serializer)
    }
}

impl<'de, S, T: ?Sized> Deserialize<'de> for UserCode<S, T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { name: UserName::deserialize(deserializer)?, maker: None })
    }
}

impl<S, T: ?Sized> JsonSchema for UserCode<S, T> {
    fn schema_name() -> Cow<'static, str> {
        "UserCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Custom code: a Python class, by module and name, or code of the Rust program that \
                            runs the scenario",
            "type": "string",
            "pattern": r"^python:[^.:]+(\.[^.:]+)+$|^rust:.+$",
            "examples": ["python:my_module.Mine"],
        })
    }
}

/// User code cannot continue, or broke a rule. The failure ends the run immediately, from any depth of calls;
/// built-in algorithms, which cannot fail, pay nothing for this.
#[derive(Debug)]
pub struct Failure {
    /// The reason: a sentence without a full stop.
    pub message: String,
    /// The error that it raised itself.
    pub cause: Option<Box<dyn Any + Send>>,
}

impl Failure {
    /// A failure by breaking a rule.
    pub fn new(message: String) -> Self {
        Self { message, cause: None }
    }

    /// Ends the run.
    pub fn raise(self) -> ! {
        resume_unwind(Box::new(self))
    }

    /// The failure that ended a run; any other panic continues to unwind.
    pub fn caught(payload: Box<dyn Any + Send>) -> Self {
        *payload.downcast().unwrap_or_else(|other| resume_unwind(other))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_name_says_language_module_and_class() {
        for name in ["python:mine.Reno", "python:lab.mine.Reno", "rust:reno"] {
            assert_eq!(UserName::try_from(name.to_owned()).map(String::from), Ok(name.to_owned()));
        }
        for (name, said) in
            [("python:Reno", "incomplete"), ("rust:", "incomplete"), ("ruby:a.B", "custom code")]
        {
            let error = UserName::try_from(name.to_owned()).expect_err(name);
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn code_that_nobody_brought_fails_and_says_so() {
        let code: UserCode<(), str> = serde_json::from_str("\"rust:mine\"").expect("a name");
        let payload = catch_unwind(AssertUnwindSafe(|| code.make(()))).expect_err("nothing makes it");
        assert!(Failure::caught(payload).message.contains("rust:mine"));
    }
}
