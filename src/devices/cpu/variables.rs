//! One environment variable.

/// What a variable sets, nothing where it is absent, or what is wrong with it.
pub type Setting<T> = std::result::Result<Option<T>, String>;

/// An absent or empty variable is `None`; one that `parse` refuses is a message.
pub fn setting<T>(variable: &str, takes: &str, parse: impl FnOnce(&str) -> Option<T>) -> Setting<T> {
    let Some(text) = std::env::var_os(variable).filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.to_string_lossy();
    match parse(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("{variable}: got {text:?}, takes {takes}; it is ignored")),
    }
}
