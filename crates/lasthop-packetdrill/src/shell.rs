//! The shell commands of a script, as far as they set up the host: settings of the kernel (`sysctl`), and the
//! queue discipline of its device. No command runs.

use std::collections::BTreeMap;

/// The settings that the commands of a script request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Settings below `net.ipv4`, by name: line of the script and value. A later one replaces an earlier one.
    pub settings: BTreeMap<String, (u32, String)>,
    /// The host's device has the queue discipline `fq`.
    pub fq: bool,
    /// Unsupported settings: line and description.
    pub missing: Vec<(u32, String)>,
}

/// Where settings are, by name and as files.
const PREFIXES: [&str; 3] = ["net.ipv4.", "net/ipv4/", "/proc/sys/net/ipv4/"];
/// A script's `set_sysctls.py` writes a file with this name, which undoes its settings at the end.
const RESTORES: &str = "/tmp/sysctl_restore_";

impl Setup {
    /// Reads a command of the script, on this line. `files` contains the scripts that it may call, by the
    /// path in the command.
    pub fn read(&mut self, line: u32, text: &str, files: &BTreeMap<String, String>) {
        for command in commands(text) {
            self.command(line, &command, files);
        }
    }

    fn command(&mut self, line: u32, words: &[String], files: &BTreeMap<String, String>) {
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let name = words[0].as_str();
        if let Some(text) = files.get(name) {
            return self.read(line, text, files);
        }
        match (name.rsplit('/').next().unwrap_or(name), arguments.as_slice()) {
            ("sysctl" | "set_sysctls.py", settings) => self.set_all(line, settings),
            // Connections find no cached metrics in any case, and segments leave one by one; CUBIC's HyStart
            // detects by trains and by delay, which is the default.
            ("ip", ["tcp_metrics", "flush", ..])
            | ("ethtool", ["-K", _, "tso" | "gso" | "gro", "off", ..])
            | ("echo", ["3", ">", "/sys/module/tcp_cubic/parameters/hystart_detect"]) => {}
            (
                "tc",
                [
                    "qdisc",
                    "add" | "replace",
                    "dev",
                    _,
                    "root",
                    kind @ ("pfifo" | "pfifo_fast" | "noqueue" | "fq"),
                ],
            ) => self.fq = *kind == "fq",
            _ if name.starts_with(RESTORES) => {}
            _ => self.missing.push((line, format!("the command \"{}\"", words.join(" ")))),
        }
    }

    fn set_all(&mut self, line: u32, settings: &[&str]) {
        for setting in settings.iter().filter(|word| !word.starts_with('-')) {
            let assignment = setting.split_once('=').and_then(|(name, value)| {
                let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
                Some((name.to_owned(), value.to_owned()))
            });
            match assignment {
                Some((name, value)) => {
                    self.settings.insert(name, (line, value));
                }
                None => self.missing.push((line, format!("the setting \"{setting}\""))),
            }
        }
    }
}

/// The commands of a text and their words, without comments and redirections of their output.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        for words in split(line).split(|word| word == ";") {
            let words = without_redirections(words);
            if !words.is_empty() {
                all.push(words);
            }
        }
    }
    all
}

/// The words of a line: quotes join words, `#` begins a comment, and products such as `$((15*1024*1024))` are
/// computed.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_open = false;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let mut width = c.len_utf8();
        if let Some((inside, length)) = rest.strip_prefix("$((").and_then(product) {
            word.push_str(&inside.to_string());
            (is_open, width) = (true, length);
        } else if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && matches!(c, '"' | '\'') {
            (quote, is_open) = (Some(c), true);
        } else if quote.is_none() && (c.is_whitespace() || c == ';') {
            if std::mem::take(&mut is_open) {
                words.push(std::mem::take(&mut word));
            }
            if c == ';' {
                words.push(";".to_owned());
            }
        } else if quote.is_none() && c == '#' && !is_open {
            break;
        } else {
            word.push(c);
            is_open = true;
        }
        rest = &rest[width..];
    }
    if is_open {
        words.push(word);
    }
    words
}

/// The value of `A*B))` and the length of the text from `$((` on.
fn product(text: &str) -> Option<(u64, usize)> {
    let inside = &text[..text.find("))")?];
    let value = inside.split('*').map(|factor| factor.trim().parse::<u64>().ok()).product::<Option<u64>>()?;
    Some((value, inside.len() + "$(())".len()))
}

fn without_redirections(words: &[String]) -> Vec<String> {
    let end = words.iter().position(|word| ["&>", ">&", "2>"].iter().any(|sign| word.starts_with(sign)));
    let words = &words[..end.unwrap_or(words.len())];
    match words {
        [command @ .., sign, file] if sign == ">" && file == "/dev/null" => command.to_vec(),
        _ => words.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_commands_and_in_the_scripts_that_they_call() {
        let files = BTreeMap::from([(
            "../defaults.sh".to_owned(),
            "#!/bin/bash\nip tcp_metrics flush all > /dev/null 2>&1\n\
             sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\" # bytes\n\
             tc qdisc add dev tun0 root pfifo"
                .to_owned(),
        )]);
        let mut setup = Setup::default();
        setup.read(
            3,
            "../defaults.sh\ntc qdisc replace dev tun0 root fq\n\
             ../set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \\\n /proc/sys/net/ipv4/tcp_ecn=1; rm -r /tmp/x",
            &files,
        );
        let value = |name: &str| setup.settings.get(name).map(|(_, value)| value.as_str());
        assert_eq!(value("tcp_rmem"), Some("4096 540000 15728640"));
        assert_eq!((value("tcp_sack"), value("tcp_ecn")), (Some("0"), Some("1")));
        assert!(setup.fq);
        assert_eq!(setup.missing, [(3, "the command \"rm -r /tmp/x\"".to_owned())]);
    }
}
