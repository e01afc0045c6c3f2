//! `#[guarded]`, for everything that Python calls.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Runs the body of a function, or of each function of an `impl` block, in `crate::python::entry::enter`, which lets no
/// panic through. Stands above `#[pyfunction]` and `#[pymethods]`. A function that cannot fail becomes one that can: it
/// returns a `PyResult`.
#[proc_macro_attribute]
pub fn guarded(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
    let Some(start) = tokens.iter().position(|token| is(token, "impl")) else {
        return functions(tokens, "");
    };
    // `impl PyType { ... }`: the type's name goes into messages, as Python knows it.
    let name = tokens.get(start + 1).map_or(String::new(), |token| token.to_string());
    let name = format!("{}.", name.trim_start_matches("Py"));
    let inside = |token| match token {
        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
            let functions = functions(body.stream().into_iter().collect(), &name);
            TokenTree::Group(Group::new(Delimiter::Brace, functions))
        }
        other => other,
    };
    tokens.into_iter().map(inside).collect()
}

/// Each `fn name(...) -> Type { body }` of a list of tokens, guarded; everything else as it is.
fn functions(tokens: Vec<TokenTree>, of: &str) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let begins = matches!(&token, TokenTree::Ident(ident) if ident.to_string() == "fn");
        out.push(token);
        if !begins {
            continue;
        }
        let name = tokens.peek().map_or(String::new(), |name| name.to_string());
        // Up to the arrow or the body: the name, generics, and arguments.
        let is_body =
            |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let is_dash = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '-');
        while let Some(token) = tokens.next_if(|token| !is_body(token) && !is_dash(token)) {
            out.push(token);
        }
        // `-` and `>`, then the type.
        let mut result: Vec<TokenTree> = Vec::new();
        while let Some(token) = tokens.next_if(|token| !is_body(token)) {
            result.push(token);
        }
        let result: TokenStream = result.into_iter().skip(2).collect();
        let Some(TokenTree::Group(body)) = tokens.next() else { continue };
        out.extend(guard(&format!("{of}{}", name.trim_start_matches("r#")), result, body));
    }
    out.into_iter().collect()
}

/// `-> PyResult<Type> { enter(name, move || -> PyResult<Type> { body }) }`
fn guard(name: &str, result: TokenStream, body: Group) -> TokenStream {
    let parse = |text: &str| text.parse::<TokenStream>().expect("these are whole tokens");
    let can_fail =
        matches!(result.clone().into_iter().next(), Some(TokenTree::Ident(ident)) if ident.to_string() == "PyResult");
    let body = TokenStream::from(TokenTree::Group(body));
    let (result, body) = if can_fail {
        (result, body)
    } else {
        let plain = if result.is_empty() { parse("()") } else { result };
        let mut inner = parse("move || ->");
        inner.extend([plain.clone(), body]);
        let mut called = group(Delimiter::Parenthesis, inner);
        called.extend(parse("()"));
        let mut wrapped = parse("::pyo3::PyResult::Ok");
        wrapped.extend(group(Delimiter::Parenthesis, called));
        let mut whole = parse("::pyo3::PyResult <");
        whole.extend([plain, parse(">")]);
        (whole, group(Delimiter::Brace, wrapped))
    };
    let mut arguments = parse(&format!("{name:?}, move || ->"));
    arguments.extend([result.clone(), body]);
    let mut call = parse("crate::python::entry::enter");
    call.extend(group(Delimiter::Parenthesis, arguments));
    let mut whole = parse("->");
    whole.extend([result, group(Delimiter::Brace, call)]);
    whole
}

fn group(delimiter: Delimiter, tokens: TokenStream) -> TokenStream {
    TokenTree::Group(Group::new(delimiter, tokens)).into()
}
