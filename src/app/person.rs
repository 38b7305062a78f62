//! Who uses this process, as the trail of edits names people.

use std::sync::OnceLock;

static PERSON: OnceLock<String> = OnceLock::new();

/// The user who started this process: with `sudo`, the one who called it. The first call decides, before a process of root
/// takes the identity of the mirror's owner.
pub fn person() -> &'static str {
    PERSON.get_or_init(|| {
        let user = rustix::process::getuid();
        let caller = std::env::var("SUDO_USER").ok().filter(|name| user.is_root() && !name.is_empty());
        caller.unwrap_or_else(|| user_name(user.as_raw()))
    })
}

/// A user's name, or the id if it has none.
pub fn user_name(id: u32) -> String {
    name_in("/etc/passwd", id)
}

/// The name of an id in a table of the system, or the id.
pub fn name_in(table: &str, id: u32) -> String {
    let table = std::fs::read_to_string(table).unwrap_or_default();
    name(&table, id).unwrap_or_else(|| id.to_string())
}

/// The name in the first field of the line whose third field is the id.
fn name(table: &str, id: u32) -> Option<String> {
    let number = id.to_string();
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_id_has_its_name() {
        let table = "root:x:0:\ncrm:x:117:anna,bert\n";
        assert_eq!(name(table, 117).as_deref(), Some("crm"));
        assert_eq!(name(table, 11), None);
    }
}
