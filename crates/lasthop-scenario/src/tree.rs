//! A tree of TOML values with their positions in the text, and merging of such trees.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::error::{Problem, Span};

/// A value and its position; values from profiles and defaults have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub span: Option<Span>,
    pub value: Value,
}

/// Why a value does not fit its type: the path of the key, and the reason.
pub type ReadError = serde_path_to_error::Error<toml::de::Error>;

/// A TOML value. Tables keep the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(toml::value::Datetime),
    Array(Vec<Node>),
    Table(Table),
}

impl Default for Value {
    /// An empty table.
    fn default() -> Self {
        Self::Table(Table::new())
    }
}

/// The entries of a table in the order of the file.
pub type Table = Vec<Entry>;

/// One key of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub span: Option<Span>,
    pub node: Node,
}

/// Key that marks a table as a distribution, which merging replaces as a whole.
const DISTRIBUTION_TAG: &str = "distribution";

/// Maximum number of characters of names, and of keys, which may be names.
const NAME_LENGTH_MAX: usize = 200;

/// Key that identifies the items of a list.
pub const NAME: &str = "name";

fn all_named(items: &[Node]) -> bool {
    items.iter().all(|item| item.name().is_some())
}

impl Node {
    /// Parses a TOML document, the text of file number `file`.
    pub fn parse(text: &str, file: usize) -> Result<Self, Vec<Problem>> {
        let (document, errors) = DeTable::parse_recoverable(text);
        let mut problems: Vec<_> = errors.iter().map(|error| invalid(error, file)).collect();
        let value = Value::Table(table(document.into_inner(), file, &mut problems));
        let node = Self { span: Some(Span { file, start: 0 }), value };
        if problems.is_empty() { Ok(node) } else { Err(problems) }
    }

    /// Parses `text` as a TOML value without a position.
    pub fn literal(text: &str) -> Option<Self> {
        let table = Self::parse(&format!("value = {text}"), 0).ok()?;
        table.get("value").cloned().map(Self::without_spans)
    }

    /// The same tree without positions, for values that are not in a file.
    #[must_use]
    pub fn without_spans(mut self) -> Self {
        self.span = None;
        match &mut self.value {
            Value::Array(items) => {
                for item in items {
                    *item = std::mem::take(item).without_spans();
                }
            }
            Value::Table(entries) => {
                for entry in entries {
                    entry.span = None;
                    entry.node = std::mem::take(&mut entry.node).without_spans();
                }
            }
            _ => {}
        }
        self
    }

    /// The entries, if it is a table.
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if it is an array.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Its name, if it is a table with a name.
    fn name(&self) -> Option<&str> {
        self.get(NAME)?.text()
    }

    /// The value of a key, if it is a table with that key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.table()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// A string without a position.
    pub fn from_text(text: &str) -> Self {
        Self { span: None, value: Value::Text(text.into()) }
    }

    /// The value for messages: a string without its quotation marks, other values as TOML.
    pub fn rendered(&self) -> String {
        self.text().map_or_else(|| self.to_toml().to_string(), str::to_owned)
    }

    /// The value at a path such as `flow[1].payload`.
    pub fn at(&self, path: &str) -> Option<&Self> {
        steps(path).try_fold(self, Self::step)
    }

    fn step(&self, step: &str) -> Option<&Self> {
        match (&self.value, step.strip_suffix(']')) {
            (Value::Array(items), Some(index)) => index.parse().ok().and_then(|i: usize| items.get(i)),
            _ => self.get(step),
        }
    }

    /// The value of a key, or the item with an index such as `[1]`.
    pub fn child(&mut self, step: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Table(entries) => {
                entries.iter_mut().find(|entry| entry.key == step).map(|entry| &mut entry.node)
            }
            Value::Array(items) => items.get_mut(step.trim_matches(['[', ']']).parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Removes a key from a table and returns its value.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        let index = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(index).node)
    }

    /// Sets the value at a path of keys, and creates missing tables. Does nothing if another value than a table
    /// is on the path.
    pub fn set(&mut self, path: &[&str], node: Self) {
        let place = self.span;
        let (Value::Table(entries), Some((key, rest))) = (&mut self.value, path.split_first()) else {
            return;
        };
        let index = entries.iter().position(|entry| entry.key == *key).unwrap_or_else(|| {
            let node = Self { span: place, ..Self::default() };
            entries.push(Entry { key: (*key).into(), span: place, node });
            entries.len() - 1
        });
        if rest.is_empty() {
            entries[index].node = node;
        } else {
            entries[index].node.set(rest, node);
        }
    }

    /// The number of values in it, itself included.
    pub fn size(&self) -> usize {
        1 + match &self.value {
            Value::Array(items) => items.iter().map(Self::size).sum(),
            Value::Table(entries) => entries.iter().map(|entry| entry.node.size()).sum::<usize>(),
            _ => 0,
        }
    }

    /// Position of the deepest value on a path such as `flow[1].payload` that is in the file.
    pub fn span_of(&self, path: &str) -> Option<Span> {
        let mut node = self;
        let mut span = self.span;
        for step in steps(path) {
            let Some(next) = node.step(step) else { break };
            node = next;
            span = node.span.or(span);
        }
        span
    }

    /// Reads the value as a configuration type. All types share one deserializer, because the compiler generates
    /// serde's code for each pair of type and deserializer.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        serde_path_to_error::deserialize(self.to_toml())
    }

    /// Converts to the toml crate's type, for serde.
    fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::Text(text) => toml::Value::String(text.clone()),
            Value::Integer(number) => toml::Value::Integer(*number),
            Value::Float(number) => toml::Value::Float(*number),
            Value::Boolean(flag) => toml::Value::Boolean(*flag),
            Value::Date(date) => toml::Value::Datetime(*date),
            Value::Array(items) => toml::Value::Array(items.iter().map(Self::to_toml).collect()),
            Value::Table(entries) => toml::Value::Table(
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_toml())).collect(),
            ),
        }
    }

    /// Merges `over` into `self`: tables are merged key by key; all other values, including arrays and
    /// distributions, are replaced. A table is merged into an array of named items by name; `false` removes an
    /// item.
    pub fn merge(&mut self, over: &Self) {
        match (&mut self.value, &over.value) {
            (Value::Array(items), Value::Table(entries)) if all_named(items) => {
                let places = places(entries, items.iter().filter_map(Self::name));
                for (Entry { key, span, node }, place) in entries.iter().zip(places) {
                    if let Some(place) = place {
                        items[place].merge(node);
                    } else if !node.is_false() {
                        let name = Self { span: *span, value: Value::Text(key.clone()) };
                        let mut item = node.clone();
                        if let Value::Table(entries) = &mut item.value {
                            entries.push(Entry { key: NAME.into(), span: *span, node: name });
                        }
                        items.push(item);
                    }
                }
                items.retain(|item| !item.is_false());
            }
            (Value::Table(under), Value::Table(entries)) if over.get(DISTRIBUTION_TAG).is_none() => {
                self.span = over.span.or(self.span);
                let places = places(entries, under.iter().map(|existing| existing.key.as_str()));
                for (entry, place) in entries.iter().zip(places) {
                    match place {
                        Some(place) => {
                            under[place].span = entry.span;
                            under[place].node.merge(&entry.node);
                        }
                        None => under.push(entry.clone()),
                    }
                }
            }
            _ => *self = over.clone(),
        }
    }

    /// The first path, in the order of `other`, at which the two trees have different values, with their
    /// positions. If the file of `other` extends that of `self`, `other` may override values.
    pub fn conflict(&self, other: &Self) -> Option<Conflict> {
        let merged = |node: &Self| node.table().is_some() && node.get(DISTRIBUTION_TAG).is_none();
        let laid_over_names = self.items().is_some_and(all_named) && merged(other);
        if laid_over_names {
            return None;
        }
        if !merged(self) || !merged(other) {
            let spans = [self.span, other.span];
            let laid_over = other.span.map(|span| span.file) < self.span.map(|span| span.file);
            let differ = !laid_over && self.to_toml() != other.to_toml();
            return differ.then(|| Conflict { path: Vec::new(), spans });
        }
        let (own, entries) = (self.table()?, other.table()?);
        let places = places(entries, own.iter().map(|entry| entry.key.as_str()));
        entries.iter().zip(places).find_map(|(entry, place)| {
            let mut conflict = own[place?].node.conflict(&entry.node)?;
            conflict.path.insert(0, entry.key.clone());
            Some(conflict)
        })
    }

    /// Removes the keys with the value `false`, which unsets an inherited value, except where `is_switch`.
    pub fn unset(&mut self, is_switch: &impl Fn(&str) -> bool) {
        match &mut self.value {
            Value::Table(entries) => {
                entries.retain(|entry| !entry.node.is_false() || is_switch(&entry.key));
                for entry in entries {
                    entry.node.unset(is_switch);
                }
            }
            Value::Array(items) => {
                for item in items {
                    item.unset(is_switch);
                }
            }
            _ => {}
        }
    }

    /// True if it contains a value with this position.
    pub fn states(&self, place: Span) -> bool {
        self.span == Some(place)
            || match &self.value {
                Value::Table(entries) => entries.iter().any(|entry| entry.node.states(place)),
                Value::Array(items) => items.iter().any(|item| item.states(place)),
                _ => false,
            }
    }

    fn is_false(&self) -> bool {
        self.value == Value::Boolean(false)
    }

    /// The path and position of an empty table in `over` whose merging into a table of this tree has no effect.
    pub fn without_effect(&self, over: &Self) -> Option<(Vec<String>, Option<Span>)> {
        let entries = over.table()?;
        let (names, nodes): (Vec<&str>, Vec<&Self>) = match &self.value {
            Value::Table(own) => own.iter().map(|entry| (entry.key.as_str(), &entry.node)).unzip(),
            Value::Array(items) => items.iter().filter_map(|item| Some((item.name()?, item))).unzip(),
            _ => return None,
        };
        entries.iter().zip(places(entries, names.into_iter())).find_map(|(entry, place)| {
            let own = nodes[place?];
            let is_empty = own.table().is_some() && entry.node.table().is_some_and(Vec::is_empty);
            let inner =
                if is_empty { Some((Vec::new(), entry.span)) } else { own.without_effect(&entry.node) };
            let (mut path, span) = inner?;
            path.insert(0, entry.key.clone());
            Some((path, span))
        })
    }

    /// Describes the value, for "found a; write b".
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("the string {text:?}"),
            Value::Integer(number) => format!("the number {number}"),
            Value::Float(number) => format!("the number {number}"),
            Value::Boolean(flag) => format!("{flag}"),
            Value::Date(date) => format!("the date {date}"),
            Value::Array(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
        }
    }
}

/// For each entry, the index of the first of these names that equals its key. Searching the names for each key
/// would be too slow.
fn places<'a>(entries: &[Entry], names: impl Iterator<Item = &'a str>) -> Vec<Option<usize>> {
    let mut index = BTreeMap::new();
    for (place, name) in names.enumerate() {
        index.entry(name).or_insert(place);
    }
    entries.iter().map(|entry| index.get(entry.key.as_str()).copied()).collect()
}

/// Two trees that contradict each other.
pub struct Conflict {
    pub path: Vec<String>,
    pub spans: [Option<Span>; 2],
}

/// A key as TOML writes it: quoted unless bare.
pub fn quote(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if bare { key.into() } else { format!("{key:?}") }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|step| !step.is_empty())
}

fn invalid(error: &toml::de::Error, file: usize) -> Problem {
    let reason = error.message();
    let remedy = "see https://toml.io for the syntax; strings such as \"64 kbit/s\" need quotation marks";
    let start = error.span().map_or(0, |span| span.start);
    Problem::new(Some(Span { file, start }), format!("not valid TOML: {reason}; {remedy}"))
}

fn table(entries: DeTable<'_>, file: usize, problems: &mut Vec<Problem>) -> Table {
    let mut table = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key_span = Span { file, start: key.span().start };
        let span = Span { file, start: value.span().start };
        let node = Node { span: Some(span), value: convert(value.into_inner(), key_span, problems) };
        let name = node.text().filter(|_| key.get_ref() == NAME);
        problems.extend([&**key.get_ref(), name.unwrap_or_default()].into_iter().find_map(|name| {
            let (begin, _) = name.split_at(name.char_indices().nth(NAME_LENGTH_MAX)?.0);
            let message = format!(
                "the name {begin:?}... has {} characters; names are used in tables and file names, so use at \
                 most {NAME_LENGTH_MAX}",
                name.chars().count()
            );
            Some(Problem::new(Some(key_span), message))
        }));
        table.push(Entry { key: key.into_inner().into_owned(), span: Some(key_span), node });
    }
    table.sort_by_cached_key(|entry| first_place(entry.span, &entry.node));
    table
}

/// Position of the first mention of a value: a header may open a subtable before the table itself.
fn first_place(span: Option<Span>, node: &Node) -> usize {
    let own = span.map_or(usize::MAX, |span| span.start);
    let first = node.table().and_then(|entries| entries.first());
    first.map_or(own, |entry| own.min(first_place(entry.span, &entry.node)))
}

fn convert(value: DeValue<'_>, place: Span, problems: &mut Vec<Problem>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let read = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(read.unwrap_or_else(|_| {
                let message = format!("the number {number} is too large; the largest is {}", i64::MAX);
                problems.push(Problem::new(Some(place), message));
                i64::MAX
            }))
        }
        // The parser has checked the syntax; a float out of range is read as infinite.
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(flag),
        DeValue::Datetime(date) => Value::Date(date),
        DeValue::Array(items) => {
            let item = |item: toml::Spanned<DeValue<'_>>| {
                let span = Span { start: item.span().start, ..place };
                Node { span: Some(span), value: convert(item.into_inner(), span, problems) }
            };
            Value::Array(items.into_iter().map(item).collect())
        }
        DeValue::Table(entries) => Value::Table(table(entries, place.file, problems)),
    }
}
