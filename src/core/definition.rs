//! An operator definition: which operator, on which named blobs, with which arguments. JSON both ways.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

use crate::args::ArgValue;
use crate::error::{Error, Result};

/// One step of a net. An omitted optional input or unwanted output is the empty name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorDef {
    /// The registered operator's name.
    pub operator: String,
    /// The blobs it reads.
    pub inputs: Vec<String>,
    /// The blobs it writes.
    pub outputs: Vec<String>,
    /// The arguments that were given; the schema knows the others.
    #[serde(default, deserialize_with = "each_once")]
    pub args: BTreeMap<String, ArgValue>,
    /// Where to run; the inputs' device where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The user's own name for this step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Blobs that must have another blob's shape and type once this step has run: gradients of a user's own are
    /// checked against what they are gradients of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub like: BTreeMap<String, String>,
}

/// Reads arguments; a name that stands there twice is refused, since either value may be the one that is meant.
fn each_once<'de, D: Deserializer<'de>>(json: D) -> std::result::Result<BTreeMap<String, ArgValue>, D::Error> {
    struct Arguments;
    impl<'de> Visitor<'de> for Arguments {
        type Value = BTreeMap<String, ArgValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object with arguments")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut json: A) -> std::result::Result<Self::Value, A::Error> {
            let mut args = BTreeMap::new();
            while let Some((name, value)) = json.next_entry::<String, ArgValue>()? {
                if args.insert(name.clone(), value).is_some() {
                    return Err(serde::de::Error::custom(format!("the argument `{name}` twice")));
                }
            }
            Ok(args)
        }
    }
    json.deserialize_map(Arguments)
}

impl OperatorDef {
    /// A definition without arguments.
    pub fn new(operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        OperatorDef {
            operator: operator.into(),
            inputs: inputs.iter().map(ToString::to_string).collect(),
            outputs: outputs.iter().map(ToString::to_string).collect(),
            args: BTreeMap::new(),
            device: None,
            name: String::new(),
            like: BTreeMap::new(),
        }
    }

    /// The same definition with one more argument.
    pub fn arg(mut self, name: &str, value: ArgValue) -> Self {
        self.args.insert(name.into(), value);
        self
    }

    /// The definition of another operator that carries this one's arguments and device on.
    pub fn derive(&self, operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        OperatorDef {
            args: self.args.clone(),
            device: self.device.clone(),
            ..OperatorDef::new(operator, inputs, outputs)
        }
    }

    /// JSON text. Refused where an argument is not finite, which JSON cannot say.
    pub fn to_json(&self) -> Result<String> {
        if let Some((name, value)) = self.args.iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::argument(&self.operator, name, value, "a finite number, as JSON needs"));
        }
        Ok(serde_json::to_string(self).expect("names, numbers and lists are JSON"))
    }

    /// Reads JSON text.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::argument("OperatorDef", "json", error, "an object with operator, inputs, outputs and args")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trip_keeps_types() {
        let def = OperatorDef::new("UpFirDn2d", &["X", ""], &["Y"])
            .arg("up_x", ArgValue::Int(2))
            .arg("gain", ArgValue::Float(4.0))
            .arg("flip_kernel", ArgValue::Bool(true))
            .arg("axes", ArgValue::Ints(vec![0, 1]));
        assert_eq!(OperatorDef::from_json(&def.to_json().unwrap()), Ok(def));
    }

    #[test]
    fn what_json_cannot_say_and_what_is_not_a_definition_is_refused() {
        let def = OperatorDef::new("LeakyRelu", &["X"], &["Y"]).arg("alpha", ArgValue::Float(f64::INFINITY));
        assert!(def.to_json().is_err());
        let twice = r#"{"operator": "A", "inputs": [], "outputs": [], "args": {"alpha": 1, "alpha": 2}}"#;
        for wrong in ["", "[]", "{}", r#"{"operator": "A", "inputs": [], "outputs": [], "extra": 1}"#, twice] {
            assert!(OperatorDef::from_json(wrong).is_err(), "{wrong}");
        }
        let told = OperatorDef::from_json(twice).unwrap_err().to_string();
        assert!(told.contains("the argument `alpha` twice"), "{told}");
    }
}
