//! Any text as an operator definition: refused, or read, written and read again as the same; and its
//! gradient is made or refused.
#![no_main]

use firelu::{OperatorDef, get_gradient_defs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(definition) = OperatorDef::from_json(text) else { return };
    let json = definition.to_json().expect("JSON has no number that is not finite");
    assert_eq!(OperatorDef::from_json(&json).as_ref(), Ok(&definition));
    let gradients: Vec<Option<String>> = definition.outputs.iter().map(|name| Some(format!("{name}_grad"))).collect();
    if let Ok(backward) = get_gradient_defs(&definition, &gradients) {
        assert_eq!(backward.input_gradients.len(), definition.inputs.len());
        for operator in &backward.operators {
            firelu::registry::find(&operator.operator).expect("gradients name operators that exist");
        }
    }
});
