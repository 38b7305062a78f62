//! Who uses this process, as the trail of edits names people, and the table of users.

use std::sync::OnceLock;

static PERSON: OnceLock<String> = OnceLock::new();

/// The user who started this process: with `sudo`, the one who called it. The first call decides, before a process of root
/// takes the identity of the mirror's owner.
pub fn person() -> &'static str {
    PERSON.get_or_init(|| {
        let user = rustix::process::getuid();
        let caller = std::env::var("SUDO_USER").ok().filter(|name| user.is_root() && !name.is_empty());
        let (id, table) = (user.as_raw().to_string(), std::fs::read_to_string("/etc/passwd").unwrap_or_default());
        let known = || line_with(&table, 2, &id).map(|fields| fields[0].to_string());
        caller.or_else(known).unwrap_or_else(|| id.clone())
    })
}

/// The numbers of a user and of its group, by its name or number.
pub fn ids_of(user: &str) -> Option<(u32, u32)> {
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = line_with(&table, 0, user).or_else(|| line_with(&table, 2, user))?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

/// The fields of the line of a table that has this text in one of them.
fn line_with<'a>(table: &'a str, place: usize, text: &str) -> Option<Vec<&'a str>> {
    table.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields.get(place) == Some(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_id_has_its_line() {
        let table = "root:x:0:0:root:/root:/bin/sh\ncrm:x:117:116::/:/usr/sbin/nologin\n";
        assert_eq!(line_with(table, 2, "117").unwrap()[..4], ["crm", "x", "117", "116"]);
        assert_eq!(line_with(table, 0, "crm").unwrap()[3], "116");
        assert_eq!(line_with(table, 2, "11"), None);
        assert_eq!(["0", "root", "nobody at all"].map(ids_of), [Some((0, 0)), Some((0, 0)), None]);
    }
}
