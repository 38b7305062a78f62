//! Recognises users' indexes that could make the program's writes fail.
//!
//! An index on one of the program's tables is maintained with every row. A UNIQUE index refuses rows that the service
//! has, and an expression may fail for a value: it may call a function or collation that only its owner's program has,
//! or one that fails for some arguments. Such an index is dropped in the next transaction, before anything is written,
//! and named in `status` and `check`. All other indexes are kept.

use crate::store::program_objects::{PROGRAM_TABLES, is_own_special_index};

/// Functions that never fail.
const TOTAL: [&str; 24] = [
    "coalesce",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "length",
    "like",
    "glob",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "octet_length",
    "replace",
    "round",
    "rtrim",
    "substr",
    "substring",
    "trim",
    "typeof",
    "upper",
];

/// Functions that do not fail for a timestamp of the program. They fail for the text `now`, and with some modifiers.
const OF_TIME: [&str; 6] = ["date", "time", "datetime", "julianday", "unixepoch", "strftime"];

/// Columns in which the program only stores JSON.
const JSON_COLUMNS: [&str; 4] = ["extra", "fields", "record", "allowed_operators"];

const COLLATIONS: [&str; 3] = ["BINARY", "NOCASE", "RTRIM"];

/// Functions that do not fail for JSON and a plain path.
const OF_JSON: [&str; 3] = ["json_extract", "json_type", "json_array_length"];

/// Words that are neither columns nor functions.
const KEYWORDS: [&str; 34] = [
    "AND", "AS", "ASC", "BETWEEN", "BINARY", "BLOB", "CASE", "CAST", "COLLATE", "DESC", "DISTINCT", "ELSE", "END",
    "ESCAPE", "FALSE", "FROM", "GLOB", "IN", "INTEGER", "IS", "ISNULL", "LIKE", "NOCASE", "NOT", "NOTNULL", "NULL",
    "NUMERIC", "OR", "REAL", "RTRIM", "TEXT", "THEN", "TRUE", "WHEN",
];

/// A token of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SqlToken {
    /// A name, keyword or number.
    Word(String),
    /// A quoted name.
    Quoted(String),
    /// A string.
    Text(String),
    /// Anything else but comments and space.
    Symbol(char),
}

/// Why the index `name` of a table could make a write fail; `None` if it could not.
pub(super) fn reason(name: &str, table: &str, sql: &str) -> Option<String> {
    let is_on_program_table = PROGRAM_TABLES.iter().any(|own| own.eq_ignore_ascii_case(table));
    if !is_on_program_table || is_own_special_index(name) {
        return None;
    }
    let tokens = tokens(sql);
    if matches!(tokens.get(1), Some(SqlToken::Word(word)) if word.eq_ignore_ascii_case("UNIQUE")) {
        return Some("a UNIQUE index could refuse records of the service; create it without UNIQUE".into());
    }
    let is_on = |token: &SqlToken| matches!(token, SqlToken::Word(word) if word.eq_ignore_ascii_case("ON"));
    // The name and the table come first.
    let on = tokens.iter().skip(2).position(is_on).map_or(0, |at| at + 2);
    expression_reason(tokens.get(on + 2..).unwrap_or_default())
}

/// Why the columns, expressions and condition of an index could make a write fail.
fn expression_reason(tokens: &[SqlToken]) -> Option<String> {
    let mut json = None;
    let mut is_plain_json = true;
    for (at, token) in tokens.iter().enumerate() {
        let is_called = tokens.get(at + 1) == Some(&SqlToken::Symbol('('));
        let follows_collate = at
            .checked_sub(1)
            .and_then(|before| tokens.get(before))
            .is_some_and(|before| matches!(before, SqlToken::Word(word) if word.eq_ignore_ascii_case("COLLATE")));
        match token {
            SqlToken::Word(word) | SqlToken::Quoted(word) if follows_collate => {
                if !COLLATIONS.contains(&word.to_ascii_uppercase().as_str()) {
                    return Some(format!("it uses the collation `{word}`, which crm-mirror does not have"));
                }
            }
            SqlToken::Word(word) if ["REGEXP", "MATCH"].contains(&word.to_ascii_uppercase().as_str()) => {
                return Some(format!("it uses {word}, which crm-mirror does not have"));
            }
            SqlToken::Word(word) if KEYWORDS.contains(&word.to_ascii_uppercase().as_str()) => {}
            SqlToken::Word(word) if word.eq_ignore_ascii_case("WHERE") => {}
            SqlToken::Word(word) | SqlToken::Quoted(word) if is_called => {
                let name = word.to_ascii_lowercase();
                if OF_TIME.contains(&name.as_str()) && is_plain_time(&tokens[at + 2..]) {
                    continue;
                }
                if OF_JSON.contains(&name.as_str()) {
                    json = Some(name);
                } else if !TOTAL.contains(&name.as_str()) {
                    return Some(format!("it calls `{word}`, which could fail for some values"));
                }
            }
            SqlToken::Word(word) | SqlToken::Quoted(word) => {
                let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                is_plain_json &= is_number || is_time(word) || JSON_COLUMNS.contains(&word.as_str());
            }
            SqlToken::Text(text) => is_plain_json &= is_plain_path(text),
            SqlToken::Symbol('-') if tokens.get(at + 1) == Some(&SqlToken::Symbol('>')) => {
                json = Some("->".into());
            }
            SqlToken::Symbol(_) => {}
        }
    }
    json.filter(|_| !is_plain_json).map(|what| {
        format!("it uses `{what}` on a column that may have any text, or not with a plain path, and could fail")
    })
}

/// Whether the arguments of a function of time are a column that only the program fills, after a format if there is one.
fn is_plain_time(arguments: &[SqlToken]) -> bool {
    let arguments = match arguments {
        [SqlToken::Text(_), SqlToken::Symbol(','), rest @ ..] => rest,
        all => all,
    };
    match arguments {
        [SqlToken::Word(column) | SqlToken::Quoted(column), SqlToken::Symbol(')'), ..] => is_time(column),
        _ => false,
    }
}

/// Whether a column has only timestamps. A custom field may have any text, `now` included.
fn is_time(column: &str) -> bool {
    let column = column.to_ascii_lowercase();
    column.ends_with("_at") && !column.starts_with("cf_")
}

/// Whether a path to a value in JSON is one that SQLite accepts: `$`, then names and numbers.
fn is_plain_path(path: &str) -> bool {
    let Some(steps) = path.strip_prefix('$') else { return false };
    let steps = steps.replace('[', ".[");
    steps.is_empty()
        || steps.strip_prefix('.').is_some_and(|steps| {
            steps.split('.').all(|step| {
                let (inner, allowed): (&str, fn(char) -> bool) =
                    match step.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
                        Some(number) => (number, |c| c.is_ascii_digit()),
                        None => (step, |c| c.is_ascii_alphanumeric() || c == '_'),
                    };
                !inner.is_empty() && inner.chars().all(allowed)
            })
        })
}

/// The tokens of a statement.
fn tokens(sql: &str) -> Vec<SqlToken> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (token, length) = if let Some(comment) = rest.strip_prefix("--") {
            (None, comment.find('\n').map_or(rest.len(), |at| at + 3))
        } else if let Some(comment) = rest.strip_prefix("/*") {
            (None, comment.find("*/").map_or(rest.len(), |at| at + 4))
        } else if let Some(close) = closing(first) {
            let end = end_of_quoted(rest, close);
            let inner = rest.get(1..end.saturating_sub(1)).unwrap_or_default();
            let quoted = if first == '\'' { SqlToken::Text(inner.into()) } else { SqlToken::Quoted(inner.into()) };
            (Some(quoted), end)
        } else if is_of_word(first) {
            let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
            (Some(SqlToken::Word(rest[..end].into())), end)
        } else {
            (Some(SqlToken::Symbol(first)).filter(|_| !first.is_whitespace()), first.len_utf8())
        };
        tokens.extend(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The character that ends a quoted text.
const fn closing(open: char) -> Option<char> {
    match open {
        '\'' | '"' | '`' => Some(open),
        '[' => Some(']'),
        _ => None,
    }
}

/// The length of a quoted text with its quotes; a doubled quote is part of it.
fn end_of_quoted(text: &str, close: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == close {
            let is_doubled = close != ']' && chars.peek().is_some_and(|(_, next)| *next == close);
            if !is_doubled {
                return at + c.len_utf8();
            }
            chars.next();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_harmful_if_it_could_refuse_a_row() {
        for (sql, harmful) in [
            ("CREATE INDEX p ON contacts (email)", false),
            ("CREATE UNIQUE INDEX p ON contacts (email)", true),
            ("CREATE INDEX p ON contacts(upper(cf_b), name COLLATE nocase DESC) WHERE cf_a IS NOT NULL", false),
            ("CREATE INDEX \"on\" ON \"contacts\"(\"email\")", false),
            ("CREATE INDEX p ON contacts (CASE WHEN (email) IN ('f(') THEN 1 ELSE cast(x AS TEXT) END)", false),
            ("CREATE INDEX p ON contacts (mine(email))", true),
            ("CREATE INDEX p ON contacts (\"mine\" /* a comment */ (email))", true),
            ("CREATE INDEX p ON contacts (email COLLATE german)", true),
            ("CREATE INDEX p ON contacts (email) WHERE email REGEXP 'x'", true),
            ("CREATE INDEX p ON contacts (abs(cf_n))", true),
            ("CREATE INDEX p ON contacts (date(created_at))", false),
            ("CREATE INDEX p ON contacts (strftime('%Y', \"created_at\"))", false),
            ("CREATE INDEX p ON contacts (strftime('%Y', cf_text))", true),
            ("CREATE INDEX p ON contacts (date(cf_called_at))", true),
            ("CREATE INDEX p ON contacts (date(Cf_called_at))", true),
            ("CREATE INDEX p ON contacts (date(created_at, 'localtime'))", true),
            ("CREATE INDEX p ON contacts (date())", true),
            ("CREATE INDEX p ON contacts (strftime('%s'))", true),
            ("CREATE INDEX p ON changes (json_extract(fields, 'name'))", true),
            ("CREATE INDEX p ON changes (json_extract(fields, '$['))", true),
            ("CREATE INDEX p ON changes (json_extract(fields, '$[0].a'))", false),
            ("CREATE INDEX p ON changes (json_set(fields, '$.a', record))", true),
            ("CREATE INDEX p ON changes (json_extract(fields, '$.cf_tier[1]'))", false),
            ("CREATE INDEX p ON contacts (extra ->> '$.x')", false),
            ("CREATE INDEX p ON contacts (cf_text ->> '$.x')", true),
            ("CREATE INDEX p ON contacts (employee_count - 1)", false),
        ] {
            let table = if sql.contains("changes") { "changes" } else { "contacts" };
            assert_eq!(reason("p", table, sql).is_some(), harmful, "{sql}: {:?}", reason("p", table, sql));
            assert_eq!(reason("p", "theirs", sql), None, "{sql}");
        }
    }
}
