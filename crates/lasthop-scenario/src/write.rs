//! Writing scenario files.

/// Converts a JSON object to TOML, in its order. Values that TOML lacks, such as `null`, are errors.
pub fn to_toml(json: &str) -> Result<String, String> {
    let table: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    toml::to_string_pretty(&table).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_reads_back_unchanged_and_in_order() {
        let json = r#"{"name":"it's \"a\"\nb","flow":[{"kind":"program","z":1,"a":[1.5,true]}],
            "factor":{"x":{"b 1":{},"a":{}}}}"#;
        let text = to_toml(json).unwrap();
        let read: serde_json::Value = toml::from_str(&text).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_json::Value>(json).unwrap());
        let places =
            ["name =", "[[flow]]", "kind =", "z =", "a =", "\"b 1\"", "x.a]"].map(|key| text.find(key));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
        assert!(text.contains("[[flow]]\nkind = \"program\""), "{text}");
    }

    #[test]
    fn values_that_toml_lacks_are_errors() {
        assert!(to_toml(r#"{"name":null}"#).is_err());
        assert!(to_toml("[1]").is_err());
    }
}
