//! Named last hops, compiled in so that a file in any folder can extend them.

/// The folder `presets` by the names of its files.
macro_rules! presets {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../presets/", $name, ".toml")))),*]
    };
}

const PRESETS: &[(&str, &str)] = presets![
    "5g",
    "5g-cell",
    "base",
    "cable",
    "cable-low-latency",
    "congested-64k",
    "dsl",
    "edge",
    "geo",
    "geo-relay",
    "gprs",
    "leo",
    "lte",
    "lte-cell",
    "none",
    "starlink",
    "umts",
    "wifi",
    "wifi-lossy"
];

/// The common part of the other presets.
const COMMON: &str = "base";

/// The text of a preset.
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text)
}

/// The presets for users.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).filter(|name| *name != COMMON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_a_preset() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets").read_dir().unwrap();
        let files: BTreeSet<_> =
            folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(files, PRESETS.iter().map(|(name, _)| format!("{name}.toml")).collect());
    }
}
