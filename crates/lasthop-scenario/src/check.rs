//! Checks a tree of values against the JSON Schema that is derived from the types. An error names the place,
//! the key, the accepted values and the nearest one.
//!
//! The check implements only the part of JSON Schema that the derivation uses. Strings with units are parsed
//! by their own types, selected by the names of their definitions. Each fault is repaired at once, so that a
//! single run reports all faults of a file.

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Probability, QueueSize, Rate, UserName};
use lasthop_tcp::SizeLimit;
use serde::de::DeserializeOwned;
use serde_json::Value as Schema;

use crate::error::{FAULTS_MAX, Problem, Span, close, suggest};
use crate::range::End;
use crate::tree::{Entry, Node, Value, quote};

/// A violation of the schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub problem: Problem,
    /// Keys and indices from the root to the wrong or missing value.
    path: Vec<String>,
    repair: Repair,
}

/// How to repair a fault, so that the check can continue.
#[derive(Clone, Debug, PartialEq)]
enum Repair {
    /// Renames the key to the one that was probably meant.
    Rename(String),
    /// Renames the key to the one that was probably meant, and replaces its value by an accepted one.
    Replace(String, Node),
    /// Replaces or adds a value with an accepted one.
    Put(Node),
    Remove,
}

impl Fault {
    /// Its place, such as `flow[1].payload`.
    pub fn path(&self) -> String {
        join(&self.path)
    }

    /// True if the repair guesses the value, not only the key.
    pub fn is_guess(&self) -> bool {
        !matches!(self.repair, Repair::Rename(_))
    }
}

/// Checks `tree`, the top of a file or cell, against the root of `schema`, and repairs the faults, also those
/// that appear only after a repair. Stops at [`FAULTS_MAX`] faults.
pub fn mend(tree: &mut Node, schema: &Schema) -> Vec<Fault> {
    let mut all: Vec<Fault> = Vec::new();
    loop {
        let mut checker = Checker { root: schema, path: Vec::new(), faults: Vec::new() };
        checker.any(tree, schema);
        let faults = checker.faults;
        // From the last to the first, so that no repair moves the place of another one.
        for fault in faults.iter().rev() {
            repair(tree, fault);
        }
        let earlier_count = all.len();
        for fault in faults {
            // The repair of a reported fault may have left a table missing or empty.
            if !all[..earlier_count].iter().any(|earlier| earlier.path.starts_with(&fault.path)) {
                all.push(fault);
            }
        }
        all.truncate(FAULTS_MAX);
        if all.len() == earlier_count || all.len() == FAULTS_MAX {
            return all;
        }
    }
}

fn repair(tree: &mut Node, Fault { path, repair, .. }: &Fault) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(tree, |node, step| node.child(step));
    let Some(parent) = parent else { return };
    if let (Repair::Remove, Value::Array(items)) = (repair, &mut parent.value) {
        let index = last.trim_matches(['[', ']']).parse().ok().filter(|index| *index < items.len());
        index.map(|index: usize| items.remove(index));
        return;
    }
    if let Some(child) = parent.child(last)
        && let Repair::Put(node) = repair
    {
        *child = node.clone();
        return;
    }
    let Value::Table(entries) = &mut parent.value else { return };
    match repair {
        Repair::Put(node) => entries.push(Entry { key: last.clone(), span: None, node: node.clone() }),
        Repair::Remove => entries.retain(|entry| entry.key != *last),
        Repair::Replace(key, node) => {
            entries.retain(|entry| entry.key != *last);
            entries.push(Entry { key: key.clone(), span: None, node: node.clone() });
        }
        Repair::Rename(key) => {
            for entry in entries.iter_mut().filter(|entry| entry.key == *last) {
                entry.key.clone_from(key);
            }
        }
    }
}

/// Tries to read a value as a type; returns the error message if that fails.
fn read<T: DeserializeOwned>(node: &Node) -> Result<(), String> {
    node.read::<T>().map(drop).map_err(|error| error.inner().message().to_owned())
}

type Reader = fn(&Node) -> Result<(), String>;

/// Types that parse their own strings, by the name of their definition.
const READERS: [(&str, Reader); 12] = [
    ("End", read::<End>),
    ("Duration", read::<Duration>),
    ("Rate", read::<Rate>),
    ("Bytes", read::<Bytes>),
    ("SizeLimit", read::<SizeLimit>),
    ("QueueSize", read::<QueueSize>),
    ("Dscp", read::<Dscp>),
    ("Probability", read::<Probability>),
    ("UserCode", read::<UserName>),
    ("DistributionOfDuration", read::<Distribution<Duration>>),
    ("DistributionOfBytes", read::<Distribution<Bytes>>),
    ("DistributionOfRate", read::<Distribution<Rate>>),
];

struct Checker<'a> {
    root: &'a Schema,
    path: Vec<String>,
    faults: Vec<Fault>,
}

impl<'a> Checker<'a> {
    fn any(&mut self, node: &Node, schema: &'a Schema) {
        if let Err(problem) = self.value(node, schema) {
            let repair = self.put_example(schema);
            self.faults.push(Fault { problem, path: self.path.clone(), repair });
        }
    }

    /// Returns a fault of the value itself, and records the faults inside it.
    fn value(&mut self, node: &Node, schema: &'a Schema) -> Result<(), Problem> {
        if let Some(name) = definition_name(schema) {
            let definition = &self.root["$defs"][name];
            let reader = READERS.iter().find(|(reader, _)| *reader == name);
            // The structure first: its errors are more precise.
            if reader.is_none() || node.table().is_some() && definition.get("oneOf").is_some() {
                let before = self.faults.len();
                self.value(node, definition)?;
                if self.faults.len() > before {
                    return Ok(());
                }
            }
            let Some((_, read)) = reader else { return Ok(()) };
            let readable = match node.value {
                Value::Integer(_) | Value::Float(_) => true,
                Value::Text(_) => definition["type"] != "number",
                Value::Table(_) => definition.get("oneOf").is_some(),
                _ => false,
            };
            if !readable {
                return Err(self.unexpected(node, &self.quantity(definition)));
            }
            return read(node).map_err(|reason| self.problem(node, &reason));
        }
        if let Some(choices) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Schema::as_array) {
            return self.choice(node, choices);
        }
        // An optional number has the types ["integer", "null"].
        match schema["type"].as_str().or(schema["type"][0].as_str()) {
            Some("object") => self.object(node, schema),
            Some("array") => self.array(node, schema),
            Some("integer") => self.integer(node, schema),
            Some("number") => match node.value {
                Value::Integer(_) | Value::Float(_) => Ok(()),
                _ => Err(self.unexpected(node, "a number")),
            },
            Some("boolean") => match node.value {
                Value::Boolean(_) => Ok(()),
                _ => Err(self.unexpected(node, "true or false")),
            },
            _ if schema.get("const").is_some() => self.keyword(node, &[schema]),
            _ => match node.value {
                Value::Text(_) => Ok(()),
                _ => Err(self.unexpected(node, "a string in quotation marks")),
            },
        }
    }

    /// One of several schemas: keywords, an optional value, or tables that are distinguished by a tag.
    fn choice(&mut self, node: &Node, choices: &'a [Schema]) -> Result<(), Problem> {
        let unset: Schema = false.into();
        if node.value == Value::Boolean(false) && choices.iter().any(|choice| choice["const"] == unset) {
            return Ok(());
        }
        let stated = |choice: &&Schema| choice["type"] != "null" && choice["const"] != unset;
        let stated: Vec<&Schema> = choices.iter().filter(stated).collect();
        if let [only] = stated[..] {
            return self.value(node, only);
        }
        let (keywords, rest): (Vec<&Schema>, Vec<&Schema>) =
            stated.iter().partition(|choice| choice.get("const").is_some());
        let is_code =
            |choice: &&&Schema| definition_name(choice).is_some_and(|name| name.starts_with("User"));
        let code = rest.first().filter(is_code);
        if let [switch] = rest[..]
            && switch["type"] == "boolean"
            && !keywords.is_empty()
        {
            let names: Vec<&str> = keywords.iter().filter_map(|name| name["const"].as_str()).collect();
            return match &node.value {
                Value::Boolean(_) => Ok(()),
                Value::Text(text) if names.contains(&text.as_str()) => Ok(()),
                _ => Err(self.unexpected(node, &format!("true, false or {}", quoted(&names)))),
            };
        }
        if rest.is_empty() || code.is_some() && !keywords.is_empty() {
            // A keyword, or user code, whose names contain a colon.
            return match code.filter(|_| node.text().is_some_and(|text| text.contains(':'))) {
                Some(code) => self.value(node, code),
                None => self.keyword(node, &keywords),
            };
        }
        let (tables, others): (Vec<&Schema>, Vec<&Schema>) =
            stated.into_iter().partition(|choice| choice["type"] == "object");
        if node.table().is_none() {
            let list = |other: &&&Schema| (other["type"] == "array") == node.items().is_some();
            return match others.iter().find(list).or(others.first()) {
                Some(other) => self.value(node, other),
                None => Err(self.unexpected(node, "a table")),
            };
        }
        if let Some(table) = table_by_key(node, &tables) {
            return self.value(node, table);
        }
        self.tagged(node, &tables)
    }

    fn tagged(&mut self, node: &Node, tables: &[&'a Schema]) -> Result<(), Problem> {
        let properties = |table: &'a Schema| table["properties"].as_object().into_iter().flatten();
        let tag_of =
            |table| properties(table).find_map(|(key, value)| Some((key, value.get("const")?.as_str()?)));
        let tags: Vec<(&String, &str)> = tables.iter().filter_map(|table| tag_of(table)).collect();
        let Some((key, _)) = tags.first() else { return Err(self.unexpected(node, "another value")) };
        let accepted: Vec<&str> = tags.iter().map(|(_, value)| *value).collect();
        let Some(tag) = node.get(key) else {
            let reason = format!(
                "missing key `{key}`; add for example {key} = {:?} (accepted: {})",
                accepted[0],
                accepted.join(", ")
            );
            return Err(self.problem(node, &reason));
        };
        if let Some(index) = tags.iter().position(|(_, value)| tag.text() == Some(value)) {
            return self.value(node, tables[index]);
        }
        self.path.push((*key).clone());
        let problem = self.not_a_keyword(tag, &accepted);
        self.path.pop();
        Err(problem)
    }

    fn keyword(&self, node: &Node, choices: &[&Schema]) -> Result<(), Problem> {
        let accepted: Vec<&str> = choices.iter().filter_map(|choice| choice["const"].as_str()).collect();
        match node.text() {
            Some(text) if accepted.contains(&text) => Ok(()),
            _ => Err(self.not_a_keyword(node, &accepted)),
        }
    }

    fn not_a_keyword(&self, node: &Node, accepted: &[&str]) -> Problem {
        let written = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) if accepted.contains(&number.to_string().as_str()) => {
                return self.problem(
                    node,
                    &format!("{number} is a keyword here; write it as a string, \"{number}\""),
                );
            }
            _ => return self.unexpected(node, &format!("one of the strings {}", quoted(accepted))),
        };
        self.problem(node, &format!("unknown value {written:?}{}", suggest(&written, accepted)))
    }

    fn object(&mut self, node: &Node, schema: &'a Schema) -> Result<(), Problem> {
        let Some(entries) = node.table() else { return Err(self.unexpected(node, "a table")) };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let accepted: Vec<&str> = properties.map(|(key, _)| key.as_str()).collect();
        let mut meant = Vec::new();
        for Entry { key, span, node: value } in entries {
            if self.faults.len() >= FAULTS_MAX {
                return Ok(());
            }
            let property = schema["properties"].get(key);
            let others = schema.get("additionalProperties").filter(|others| others.is_object());
            self.path.push(key.clone());
            if let Some(property) = property.or(others) {
                self.any(value, property);
            } else {
                let near = close(key, &accepted).filter(|near| node.get(near).is_none());
                let stated = self.stated_by(key, schema);
                meant.extend(near.filter(|_| stated.is_none()));
                self.unknown_key((key, *span, value), schema, near, stated.as_deref());
            }
            self.path.pop();
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str);
        for key in required.filter(|key| node.get(key).is_none() && !meant.contains(key)) {
            self.missing_key(key, node, &schema["properties"][key]);
        }
        let empty = entries.is_empty() && schema.get("minProperties").is_some();
        if empty { Err(self.problem(node, "the table is empty; add at least one entry")) } else { Ok(()) }
    }

    /// Records an unknown key at the end of the path. Suggests the key and the value that the unknown
    /// one is a value of, or else the nearest accepted key.
    fn unknown_key(
        &mut self,
        (key, span, value): (&str, Option<Span>, &Node),
        schema: &'a Schema,
        near: Option<&str>,
        stated: Option<&str>,
    ) {
        let accepted: Vec<&str> =
            schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let suggestion = match stated {
            Some(stated) => format!("; did you mean `{stated}`? (accepted: {})", accepted.join(", ")),
            None => suggest(key, &accepted),
        };
        let message = format!("unknown key `{}`{suggestion}", join(&self.path));
        // The value may not fit the other key either; only the key is reported then.
        let repair = match near.filter(|_| stated.is_none()) {
            Some(near) if self.fits(value, &schema["properties"][near]) => Repair::Rename(near.into()),
            Some(near) if schema["required"].as_array().is_some_and(|keys| keys.contains(&near.into())) => {
                match self.put_example(&schema["properties"][near]) {
                    Repair::Put(example) => Repair::Replace(near.into(), example),
                    other => other,
                }
            }
            _ => Repair::Remove,
        };
        self.faults.push(Fault { problem: Problem::new(span, message), path: self.path.clone(), repair });
    }

    fn fits(&self, node: &Node, schema: &'a Schema) -> bool {
        let mut checker = Checker { root: self.root, path: Vec::new(), faults: Vec::new() };
        checker.any(node, schema);
        checker.faults.is_empty()
    }

    /// The key and value of a table of which `word` is the value: `discipline = "cake"` for `cake`.
    fn stated_by(&self, word: &str, schema: &Schema) -> Option<String> {
        let mut properties = schema["properties"].as_object()?.iter();
        let stated = properties.find(|(_, property)| self.is_word(word, property));
        stated.map(|(key, _)| format!("{key} = {word:?}"))
    }

    /// Whether a word is one of the keywords of a type.
    fn is_word(&self, word: &str, schema: &Schema) -> bool {
        let definition = definition_name(schema).map_or(schema, |name| &self.root["$defs"][name]);
        let choices = definition.get("oneOf").or(definition.get("anyOf")).and_then(Schema::as_array);
        let named = |choice: &Schema| choice["const"] == word || self.is_word(word, choice);
        choices.into_iter().flatten().filter(|choice| choice["type"] != "object").any(named)
    }

    fn missing_key(&mut self, key: &str, node: &Node, schema: &Schema) {
        self.path.push(key.into());
        let example = self.example(schema);
        let example = example.map_or_else(String::new, |value| format!("; add for example {key} = {value}"));
        let problem = Problem::new(node.span, format!("missing key `{}`{example}", join(&self.path)));
        self.faults.push(Fault { problem, path: self.path.clone(), repair: self.put_example(schema) });
        self.path.pop();
    }

    fn put_example(&self, schema: &Schema) -> Repair {
        let node = self.example(schema).and_then(|text| Node::literal(&text));
        node.map_or(Repair::Remove, Repair::Put)
    }

    fn array(&mut self, node: &Node, schema: &'a Schema) -> Result<(), Problem> {
        let by_name = schema["type"].as_array().is_some_and(|types| types.contains(&"object".into()));
        if by_name && let Some(entries) = node.table() {
            // The resulting list is checked with the rest of the cell.
            let accepted = |node: &Node| node.table().is_some() || node.value == Value::Boolean(false);
            for Entry { key, node, .. } in entries.iter().filter(|entry| !accepted(&entry.node)) {
                let problem = self.unexpected(node, "a table");
                let path = [&self.path[..], std::slice::from_ref(key)].concat();
                self.faults.push(Fault { problem, path, repair: Repair::Remove });
            }
            return Ok(());
        }
        let Some(items) = node.items() else { return Err(self.unexpected(node, "a list")) };
        if items.is_empty() && schema.get("minItems").is_some() {
            return Err(self.problem(node, "the list is empty; add at least one entry, or leave the key out"));
        }
        for (index, item) in items.iter().enumerate() {
            if self.faults.len() >= FAULTS_MAX {
                return Ok(());
            }
            self.path.push(format!("[{index}]"));
            self.any(item, &schema["items"]);
            self.path.pop();
        }
        Ok(())
    }

    fn integer(&self, node: &Node, schema: &Schema) -> Result<(), Problem> {
        let Value::Integer(number) = node.value else { return Err(self.unexpected(node, "a whole number")) };
        let min = schema["minimum"].as_i64().unwrap_or(i64::MIN);
        let of_type = if schema["format"] == "uint32" { i64::from(u32::MAX) } else { i64::MAX };
        let max = schema["maximum"].as_i64().unwrap_or(of_type);
        if (min..=max).contains(&number) {
            return Ok(());
        }
        let nearest = number.clamp(min, max);
        Err(self.problem(
            node,
            &format!(
                "{number} is out of range; write a whole number from {min} to {max} (the nearest is {nearest})"
            ),
        ))
    }

    /// Describes how a quantity is written.
    fn quantity(&self, definition: &Schema) -> String {
        let example = self.example(definition).unwrap_or_default();
        match definition["type"].as_str() {
            Some("number") => format!("a number from 0 to 1, such as {example}"),
            Some(_) => format!("a string with a number and a unit, such as {example}"),
            None if definition["type"].is_array() => format!("a name or a number, such as {example}"),
            None if definition.get("anyOf").is_some() => {
                format!("a number, or a string with a unit, such as {example}")
            }
            None => format!(
                "a string with a number and a unit, such as {example}, or a table with a distribution"
            ),
        }
    }

    /// A value that would be accepted, as TOML.
    fn example(&self, schema: &Schema) -> Option<String> {
        // The example of a key wins over that of its type.
        if let Some(example) = schema["examples"].get(0) {
            return Some(example.to_string());
        }
        if let Some(name) = definition_name(schema) {
            return self.example(&self.root["$defs"][name]);
        }
        let choices = schema.get("oneOf").or(schema.get("anyOf")).and_then(Schema::as_array);
        if let Some(first) = choices.and_then(|choices| choices.first()) {
            return self.example(first);
        }
        match schema["type"].as_str() {
            Some("integer") => Some("1".into()),
            Some("number") => Some("0.5".into()),
            Some("boolean") => Some("true".into()),
            _ => schema.get("const").map(ToString::to_string),
        }
    }

    fn problem(&self, node: &Node, reason: &str) -> Problem {
        let path = join(&self.path);
        let message = if path.is_empty() { reason.into() } else { format!("`{path}`: {reason}") };
        Problem::new(node.span, message)
    }

    fn unexpected(&self, node: &Node, expected: &str) -> Problem {
        self.problem(node, &format!("found {}; write {expected}", node.describe()))
    }
}

/// Chooses among table types without a tag: the first type with a key whose value in `node` is not a table, or
/// else the type in which every key is a table.
fn table_by_key<'a>(node: &Node, tables: &[&'a Schema]) -> Option<&'a Schema> {
    let (open, closed): (Vec<_>, Vec<_>) =
        tables.iter().copied().partition(|table| table["additionalProperties"].is_object());
    let plain = |entry: &&Entry| entry.node.table().is_none();
    let mut keys = node.table()?.iter().filter(plain).map(|entry| entry.key.as_str());
    let table = |key| closed.iter().find(|table| table["properties"].get(key).is_some()).copied();
    let open = open.first().copied()?;
    Some(keys.find_map(table).unwrap_or(open))
}

fn definition_name(schema: &Schema) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn quoted(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")
}

/// Keys and indices as one path: `flow[1].payload`.
pub fn join(path: &[String]) -> String {
    let mut joined = String::new();
    for step in path {
        if step.starts_with('[') {
            joined.push_str(step);
        } else {
            if !joined.is_empty() {
                joined.push('.');
            }
            joined.push_str(&quote(step));
        }
    }
    joined
}
