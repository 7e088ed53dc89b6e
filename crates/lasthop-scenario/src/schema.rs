//! JSON Schemas of complete scenarios and of scenario files, derived from the types.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::schema_for;
use serde_json::{Map, Value, json};

use crate::command;
use crate::matrix;
use crate::range;
use crate::transfer;
use crate::tree;
use crate::types::Scenario;
use crate::when;

pub static SCENARIO: LazyLock<Value> = LazyLock::new(|| schema_for!(Scenario).to_value());

/// Schema of a scenario file. A value may be in the file, in a level or in an extended file, so only tables
/// that are always written as a whole have required keys.
pub static FILE: LazyLock<Value> = LazyLock::new(file_schema);

/// Keys for which `false` is a value. In all others, `false` removes an inherited value.
pub static SWITCHES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    fn collect(schema: &Value, keys: &mut BTreeSet<String>) {
        let properties = schema["properties"].as_object().into_iter().flatten();
        keys.extend(properties.filter(|(_, property)| is_switch(property)).map(|(key, _)| key.clone()));
        match schema {
            Value::Object(parts) => parts.values().for_each(|part| collect(part, keys)),
            Value::Array(parts) => parts.iter().for_each(|part| collect(part, keys)),
            _ => {}
        }
    }
    let mut keys = BTreeSet::new();
    collect(&SCENARIO, &mut keys);
    keys
});

/// True if a property may be a boolean, "off" or "none".
fn is_switch(property: &Value) -> bool {
    let definition = referenced(property).map(|name| &SCENARIO["$defs"][name]);
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|choices| property[choices].as_array()).flatten();
    ["off", "none"].iter().any(|off| property["const"] == *off)
        || property["type"] == "boolean"
        || property["type"][0] == "boolean"
        || definition.into_iter().chain(choices).any(is_switch)
}

pub const SEED: u64 = 1;

pub const REPLICATIONS: u32 = 1;

/// Prefix of the definitions in which every key may be absent.
const PARTIAL: &str = "Partial";

/// The JSON Schema (draft 2020-12) of scenario files.
pub fn json_schema() -> String {
    format!("{:#}", *FILE)
}

/// The keys of a study, and a scenario with all keys optional: at the top of the file and in levels of factors.
fn file_schema() -> Value {
    let mut scenario = SCENARIO.as_object().cloned().unwrap_or_default();
    let mut definitions = object(scenario.remove("$defs").unwrap_or_default());
    transfer::add_kind(&mut definitions);
    flows_may_leave_out(&mut definitions);
    let mut level = partial(scenario, &mut definitions);
    if let Some(Value::Object(properties)) = level.get_mut("properties") {
        properties.insert(command::KEY.into(), command::schema());
        properties.insert(transfer::KEY.into(), transfer::schema());
    }
    let mut properties = study_properties();
    if let Some(Value::Object(base)) = level.get("properties") {
        properties.extend(base.clone());
    }
    for key in ["$schema", "title"] {
        level.remove(key);
    }
    level.insert("description".into(), "Any part of a scenario, merged over the base".into());
    definitions.insert("Part".into(), level.clone().into());
    if let Some(Value::Object(properties)) = level.get_mut("properties") {
        properties.insert(when::KEY.into(), when_schema());
    }
    definitions.insert("Level".into(), level.into());
    let end = json!({
        "description": "The end of a range: a number, or a string with a number and a unit",
        "anyOf": [{ "type": "string", "examples": ["64 kbit/s"] }, { "type": "number" }],
    });
    definitions.insert("End".into(), end);
    let mut file = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lasthop scenario file",
        "type": "object",
        "properties": {},
        "additionalProperties": false,
        "$defs": {},
    });
    // The macro would copy them.
    file["properties"] = properties.into();
    file["$defs"] = definitions.into();
    file
}

/// Makes the name of a flow, and all keys in its `tcp` and its relay's `tcp`, optional.
fn flows_may_leave_out(definitions: &mut Map<String, Value>) {
    let mut flow = definitions.get("Flow").cloned().unwrap_or_default();
    for kind in flow["oneOf"].as_array_mut().into_iter().flatten() {
        if let Some(tcp) = kind["properties"].get_mut("tcp") {
            partial_property(tcp, definitions);
        }
        if let Some(required) = kind["required"].as_array_mut() {
            required.retain(|key| key != tree::NAME);
        }
    }
    definitions.insert("Flow".into(), flow);
    if let Some(mut relay) = definitions.get("RelayConfig").cloned() {
        partial_property(&mut relay["properties"]["tcp"], definitions);
        definitions.insert("RelayConfig".into(), relay);
    }
}

fn referenced(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

fn when_schema() -> Value {
    json!({
        "type": "object",
        "description": "Values that the level sets only in combination with levels of other factors: by factor, \
        then by level",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": { "$ref": "#/$defs/Part" },
        },
    })
}

fn range_schema() -> Value {
    json!({
        "type": "object",
        "description": "A factor whose levels are the values between two ends",
        "minProperties": 1,
        "properties": {
            "from": { "$ref": "#/$defs/End" },
            "to": { "$ref": "#/$defs/End" },
            "scale": {
                "description": "Distribution of the levels: uniform, or uniform in the logarithm",
                "oneOf": [{ "const": "linear" }, { "const": "log" }],
                "default": "linear",
            },
            "sets": {
                "description": "The key of the scenario that the levels set, such as down.link.rate, \
                or several keys",
                "anyOf": [
                    { "type": "string", "examples": ["down.link.rate"] },
                    { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                ],
            },
        },
        "additionalProperties": false,
    })
}

/// Python parses the claims (`docs/reference/claims.md`).
fn claims_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "array",
        "description": "Statements about the results, in the language of docs/reference/claims.md, which `lasthop run` \
                        and `lasthop check` evaluate. They are not inherited through `extends`",
        "items": {
            "type": "object",
            "required": ["id", "text"],
            "properties": {
                "id": text("Name of the claim"),
                "text": text("The statement in words"),
                "section": text("Section of the statement in its source"),
                "reading": text("Interpretation of the statement"),
                "explanation": text("Explanation if the statement does not hold"),
                "contradicts_source": text("A statement of the same source that contradicts it"),
                "story": text("The command that shows an example run"),
                "uncomputable": text("Reason why the statement cannot be computed, instead of `holds`"),
                "holds": {
                    "description": "The statement as an expression, or a list of expressions that must all hold",
                    "anyOf": [{ "type": "string", "examples": ["p95(elapsed_s) < 9"] }, list],
                },
                "where": {
                    "type": "object",
                    "description": "The levels to which the statement applies, by factor",
                    "additionalProperties": {
                        "anyOf": [{ "type": "string" }, { "type": "number" }, list],
                    },
                },
                "every": list, "most": list, "some": list, "contradicts": list, "statements": list,
                "at_least": { "type": "integer", "minimum": 1 },
                "within": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            },
        },
    })
}

fn sample_schema() -> Value {
    json!({
        "type": "object",
        "description": "The points at which factors with a range are sampled",
        "properties": {
            "method": {
                "description": "Sampling method: a scrambled Sobol sequence, or a Latin hypercube",
                "oneOf": [{ "const": "sobol" }, { "const": "latin-hypercube" }],
                "default": "sobol",
            },
            "points": {
                "type": "integer", "minimum": 1, "maximum": matrix::CELLS_MAX, "default": range::POINTS,
                "description": "Number of points; for a Sobol sequence, preferably a power of two",
            },
        },
        "additionalProperties": false,
    })
}

fn study_properties() -> Map<String, Value> {
    let name = r"^[A-Za-z0-9][A-Za-z0-9._-]*$";
    let label = r"^[^\s,=]+$";
    let properties = json!({
        "extends": {
            "type": "string", "examples": ["study.toml", "lte"],
            "description": "Scenario file that this file extends, relative to this file's folder, or a preset \
                            of `lasthop shell --list`. Tables are merged; lists, distributions and other values \
                            are replaced. Factors of this file come last, and their levels may change values \
                            that levels of the extended file set. The value false removes an inherited key, \
                            except where the key itself may be true or false",
        },
        "name": {
            "type": "string", "pattern": name,
            "description": "Short name, also used for output folders; if absent, the file name",
        },
        "title": { "type": "string", "description": "Title of the report; if absent, the name" },
        "description": { "type": "string", "description": "Description of the study" },
        "seed": {
            "type": "integer", "minimum": 0, "default": SEED,
            "description": "Seed of all random streams",
        },
        "replications": {
            "type": "integer", "minimum": 1, "maximum": u32::MAX, "default": REPLICATIONS,
            "description": "Number of runs of each cell",
        },
        "factor": {
            "type": "object",
            "description": "Factors by name, each with named levels or a range",
            "propertyNames": { "pattern": label },
            "additionalProperties": {
                "anyOf": [
                    range_schema(),
                    {
                        "type": "object", "minProperties": 1,
                        "propertyNames": { "pattern": label },
                        "additionalProperties": { "$ref": "#/$defs/Level" },
                    },
                ],
            },
        },
        "sample": sample_schema(),
        "matrix": {
            "type": "array", "minItems": 1,
            "description": "Blocks of cells. Each block is the product of the levels that it lists, with all \
                            levels of a factor that it does not list. If absent, the product of all levels",
            "items": {
                "type": "object",
                "additionalProperties": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            },
        },
        "claim": claims_schema(),
    });
    object(properties)
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(entries) = value { entries } else { Map::new() }
}

/// The struct `schema` with every key optional, recursively, except in lists and tagged tables, which are
/// values.
fn partial(mut schema: Map<String, Value>, definitions: &mut Map<String, Value>) -> Map<String, Value> {
    schema.remove("required");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (key, property) in properties {
            partial_property(property, definitions);
            if !SWITCHES.contains(key) {
                may_be_unset(property);
            }
        }
    }
    schema
}

fn items_have_names(list: &Map<String, Value>, definitions: &Map<String, Value>) -> bool {
    let Some(item) = referenced(&list["items"]).and_then(|name| definitions.get(name)) else { return false };
    let kinds = item["oneOf"].as_array().into_iter().flatten();
    kinds.chain([item]).any(|kind| {
        let kind = referenced(kind).and_then(|name| definitions.get(name)).unwrap_or(kind);
        kind["properties"].get(tree::NAME).is_some()
    })
}

/// Allows the value `false`, which removes an inherited value.
fn may_be_unset(property: &mut Value) {
    let description = property.get("description").cloned();
    *property = json!({ "anyOf": [property.take(), { "const": false }] });
    if let Some(description) = description {
        property["description"] = description;
    }
}

fn partial_property(property: &mut Value, definitions: &mut Map<String, Value>) {
    let Some(property) = property.as_object_mut() else { return };
    if property.get("type") == Some(&json!("array")) && items_have_names(property, definitions) {
        // A table is merged over the items of a list by name.
        property.insert("type".into(), json!(["array", "object"]));
        return;
    }
    // A table with arbitrary names.
    if let Some(others) = property.get_mut("additionalProperties").filter(|others| others.is_object()) {
        partial_property(others, definitions);
        may_be_unset(others);
        return;
    }
    // TOML has no null: an option is a key that may be absent.
    if let Some(Value::Array(mut choices)) = property.remove("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [only] = &mut choices[..] {
            property.extend(object(only.take()));
        } else {
            property.insert("anyOf".into(), choices.into());
        }
    }
    let reference = property.get("$ref").and_then(Value::as_str);
    let Some(name) = reference.and_then(|reference| reference.strip_prefix("#/$defs/")) else { return };
    let Some(Value::Object(definition)) =
        definitions.get(name).filter(|definition| definition.get("properties").is_some())
    else {
        return;
    };
    let partial_name = format!("{PARTIAL}{name}");
    if !definitions.contains_key(&partial_name) {
        let definition = partial(definition.clone(), definitions);
        definitions.insert(partial_name.clone(), definition.into());
    }
    property.insert("$ref".into(), format!("#/$defs/{partial_name}").into());
}
