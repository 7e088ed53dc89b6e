//! The values that have a name in files, read from a type's schema to avoid separate lists.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The values of `T` that have a name in files, in the order of the type.
pub fn named<T: JsonSchema + DeserializeOwned>() -> Vec<T> {
    let mut words = Vec::new();
    collect(schemars::schema_for!(T).as_value(), &mut words);
    words.into_iter().map(|word| serde_json::from_value(word).expect("a schema's own word")).collect()
}

/// Alternatives are `oneOf` or `anyOf`; their names are `const` (with a description) or `enum`.
fn collect(schema: &Value, words: &mut Vec<Value>) {
    for key in ["oneOf", "anyOf"] {
        schema[key].as_array().into_iter().flatten().for_each(|schema| collect(schema, words));
    }
    words.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    words.extend(schema.get("const").cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Mixed {
        PlainWord,
        /// With a description.
        Told,
        #[serde(untagged)]
        Other(Bytes),
    }

    #[test]
    fn words_are_values_and_others_are_not() {
        assert_eq!(named::<Mixed>(), [Mixed::PlainWord, Mixed::Told]);
    }
}
