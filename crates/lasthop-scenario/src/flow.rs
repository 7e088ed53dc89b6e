//! An entry of the scenario's list of flows: its kind, and what all kinds have in common.

use std::ops::Deref;

use lasthop_core::{Bytes, Direction, Faults};
use lasthop_traffic::{FlowConfig, Instance};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An entry of the scenario's list of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = into_kinds)]
pub struct Flow {
    /// What it is.
    #[serde(flatten)]
    pub kind: FlowConfig,
    /// Which way its data go: `down` if the fixed host sends them, `up` if the mobile host does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direction: Direction,
}

impl From<FlowConfig> for Flow {
    fn from(kind: FlowConfig) -> Self {
        Self { kind, direction: Direction::Down }
    }
}

impl Deref for Flow {
    type Target = FlowConfig;

    fn deref(&self) -> &FlowConfig {
        &self.kind
    }
}

impl Flow {
    /// The application of a run that this entry stands for, which is at this place of the list.
    pub(crate) fn instance(&self, index: usize) -> Instance<'_> {
        Instance {
            config: &self.kind,
            name: self.traffic().name().to_owned(),
            sender: self.direction.sender(),
            start_stream: format!("start.flow{index}"),
        }
    }

    /// Finds what no flow with packets of up to `mtu` bytes can be.
    pub(crate) fn check(&self, mtu: Bytes, faults: &mut Faults) {
        self.kind.check(mtu, faults);
        if let (Direction::Up, Some(why)) = (self.direction, self.traffic().only_down()) {
            faults.require(false, "direction", || format!("\"up\": {why}; leave it out"));
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Gives the keys that all kinds have in common to the schema of each kind, so that each says all that it may have.
fn into_kinds(schema: &mut Schema) {
    let Some(Value::Object(common)) = schema.remove("properties") else { return };
    for key in ["type", "additionalProperties", "unevaluatedProperties"] {
        schema.remove(key);
    }
    let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for kind in kinds.into_iter().flatten() {
        if let Some(properties) = kind["properties"].as_object_mut() {
            properties.extend(common.clone());
        }
    }
}
