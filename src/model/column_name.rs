//! The names of custom columns: any key becomes a plain identifier that is unique in its table.

use std::collections::BTreeSet;
use std::fmt;

/// The longest column name made from a key, in characters; longer keys are cut, and collisions numbered. With the
/// prefix `archived_` and the suffix `_label` or `_num` it has 63, the limit of PostgreSQL.
const MAX_BYTES: usize = 63 - "archived_".len() - "_label".len();

const PREFIX: &str = "cf_";

/// The column of a custom field. It is the only text from an answer that may become part of a statement: it contains
/// only `a`-`z`, `0`-`9` and `_`, so it needs no quoting and cannot end a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnName(Box<str>);

impl ColumnName {
    /// Makes a column name from a key: `cf_` and the key in lower case, with `_` for anything but letters, digits and
    /// `_`. If the name or its `_num` companion is taken, `_2`, `_3`… is appended.
    ///
    /// `taken` holds every name of the table, companions included. `with_num` requires a free companion name too.
    pub fn for_key(key: &str, with_num: bool, taken: &BTreeSet<String>) -> ColumnName {
        let plain: String = key
            .chars()
            .take(MAX_BYTES - PREFIX.len())
            .map(|c| c.to_ascii_lowercase())
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let free = |name: &str| !(taken.contains(name) || with_num && taken.contains(&format!("{name}_num")));
        let first = format!("{PREFIX}{plain}");
        // Terminates: `taken` is finite and every number makes another name.
        let mut names = std::iter::once(first.clone()).chain((2_u64..).map(|n| numbered(&first, n)));
        ColumnName(names.find(|name| free(name)).unwrap_or_default().into())
    }

    /// Whether a column can be that of a key, whatever other names are taken.
    pub fn may_name(column: &str, key: &str) -> bool {
        let first = ColumnName::for_key(key, false, &BTreeSet::new());
        let number = || column.rsplit_once('_').and_then(|(_, number)| number.parse::<u64>().ok());
        first.as_str() == column || number().is_some_and(|number| numbered(first.as_str(), number) == column)
    }

    /// Parses a stored name; `None` if it is not a valid custom column name.
    pub fn given(text: &str) -> Option<ColumnName> {
        let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        (plain && text.starts_with(PREFIX)).then(|| ColumnName(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the REAL companion of a decimal column.
    pub fn num(&self) -> String {
        format!("{}_num", self.0)
    }

    /// The name under which the column is parked while its field is archived.
    pub fn archived(&self) -> String {
        format!("archived_{}", self.0)
    }
}

fn numbered(name: &str, number: u64) -> String {
    let number = format!("_{number}");
    // Names are ASCII.
    format!("{}{number}", &name[..name.len().min(MAX_BYTES - number.len())])
}

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_keys_become_plain_unique_names() {
        let mut taken = BTreeSet::new();
        let mut give = |key: &str, num: bool| {
            let name = ColumnName::for_key(key, num, &taken);
            taken.insert(name.as_str().to_string());
            if num {
                taken.insert(name.num());
            }
            assert_eq!(ColumnName::given(name.as_str()), Some(name.clone()));
            name.as_str().to_string()
        };
        assert_eq!(give("tier", false), "cf_tier");
        assert_eq!(give("Tier", false), "cf_tier_2");
        assert_eq!(give("TIER", false), "cf_tier_3");
        assert_eq!(give("select", false), "cf_select");
        assert_eq!(give("x\"; DROP TABLE contacts; --", false), "cf_x___drop_table_contacts____");
        assert_eq!(give("🦀", false), "cf__");
        assert_eq!(give("", false), "cf_");
        assert_eq!(give("deal", true), "cf_deal");
        assert_eq!(give("deal_num", false), "cf_deal_num_2", "the companion's name is never given away");
        assert_eq!(give("fee_num", false), "cf_fee_num");
        assert_eq!(give("fee", true), "cf_fee_2", "a companion needs its own name free");
        let long = give(&"k".repeat(500), false);
        assert_eq!(long.len(), MAX_BYTES);
        for n in 0..120 {
            let other = ColumnName(give(&format!("{}{n}", "k".repeat(499)), n % 2 == 0).into());
            assert!(other.as_str() != long && other.as_str().len() <= MAX_BYTES, "{other}");
            let longest = [other.num(), format!("{other}_label")].map(|name| format!("archived_{name}").len());
            assert!(longest.iter().all(|length| *length <= 63), "{other}");
        }
    }
}
