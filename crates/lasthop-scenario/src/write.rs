//! Writing scenario files.

/// The TOML form of a JSON object, in its order; an error for what TOML does not have, such as `null`.
pub fn to_toml(json: &str) -> Result<String, String> {
    let table: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    toml::to_string_pretty(&table).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_as_it_was_in_its_order() {
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
    fn what_toml_does_not_have_is_an_error() {
        assert!(to_toml(r#"{"name":null}"#).is_err());
        assert!(to_toml("[1]").is_err());
    }
}
