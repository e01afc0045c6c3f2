//! Nets: lists of operator definitions, run from first to last.

use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};

/// JSON text of a net: an array of definitions. Refused where an argument is not finite.
pub fn to_json(net: &[OperatorDef]) -> Result<String> {
    let steps = net.iter().map(OperatorDef::to_json).collect::<Result<Vec<_>>>()?;
    Ok(format!("[{}]", steps.join(",\n ")))
}

/// Reads a net from JSON text.
pub fn from_json(text: &str) -> Result<Vec<OperatorDef>> {
    serde_json::from_str(text)
        .map_err(|error| Error::argument("net", "json", error, "an array of operator definitions"))
}

/// Where a net and a definition in it are, for messages: `LeakyRelu (step 3)`.
pub(super) fn step_name(index: usize, def: &OperatorDef) -> String {
    match def.name.as_str() {
        "" => format!("{} (step {index})", def.operator),
        name => format!("{} (step {index}, {name:?})", def.operator),
    }
}

/// The same with what the step reads and writes: `Mul (step 3: A, B -> C)`.
pub(super) fn step_with_blobs(index: usize, def: &OperatorDef) -> String {
    let list = |names: &[String]| {
        let shown: Vec<&str> = names.iter().map(|name| if name.is_empty() { "_" } else { name }).collect();
        shown.join(", ")
    };
    let name = step_name(index, def);
    let before = name.strip_suffix(')').unwrap_or(&name);
    format!("{before}: {} -> {})", list(&def.inputs), list(&def.outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::args::ArgValue;

    #[test]
    fn json_round_trip() {
        let net = vec![
            OperatorDef::new("LeakyRelu", &["X"], &["X"]).arg("alpha", ArgValue::Float(0.2)),
            OperatorDef::new("Sum", &["X", "Z"], &["Y"]),
        ];
        assert_eq!(from_json(&to_json(&net).unwrap()), Ok(net));
        assert_eq!(from_json(&to_json(&[]).unwrap()), Ok(vec![]));
        for wrong in ["", "{}", "[1]", r#"[{"operator": "A"}]"#] {
            assert!(from_json(wrong).is_err(), "{wrong}");
        }
    }
}
