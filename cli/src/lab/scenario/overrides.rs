//! A variant's changes, put into the scenario before it is read: so a wrong one is found as any other.

use toml::{Table, Value};

use super::check::Problem;

/// The scenario with each path set to its value.
pub(super) fn apply(plain: &Table, changes: &Table) -> Result<Table, Problem> {
    let mut table = plain.clone();
    // What makes a scenario of several is not part of any one of them.
    for whole in ["variants", "figures", "shapes", "plots"] {
        table.remove(whole);
    }
    for (path, value) in changes {
        let words: Vec<&str> = path.split('.').collect();
        if words.len() > 6 {
            return Err(Problem::plain(format!("`{path}`: no path is so long")));
        }
        let mut root = Value::Table(table);
        let count = set(&mut root, &words, value);
        if count == 0 {
            return Err(Problem::plain(format!(
                "`{path}`: there is nothing of that name"
            )));
        }
        let Value::Table(done) = root else {
            return Err(Problem::plain(format!("`{path}`: no path")));
        };
        table = done;
    }
    Ok(table)
}

/// Sets all that the words lead to; how many that were.
fn set(at: &mut Value, words: &[&str], value: &Value) -> usize {
    let Some((first, rest)) = words.split_first() else {
        *at = value.clone();
        return 1;
    };
    match at {
        Value::Table(table) => match (table.get_mut(*first), rest) {
            (Some(inner), _) => set(inner, rest, value),
            // A key that is not written has its default: it may be set. Whether there is such a key is found out by who reads it.
            (None, []) => {
                table.insert((*first).to_owned(), value.clone());
                1
            }
            (None, _) => 0,
        },
        Value::Array(elements) => {
            let found = elements.iter_mut().enumerate().filter(|(place, element)| {
                let name = element.get("name").and_then(Value::as_str);
                *first == "*" || name == Some(*first) || first.parse() == Ok(*place)
            });
            found.map(|(_, element)| set(element, rest, value)).sum()
        }
        _ => 0,
    }
}
