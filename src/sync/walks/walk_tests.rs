//! Walks: ties, refused cursors, disorder, repeated cursors, constant changes.

use super::*;

fn at(second: i64) -> Instant {
    Instant::from_secs(1_700_000_000 + second).unwrap()
}

fn page(keys: &[i64], next: Option<&str>) -> Facts {
    Facts {
        keys: keys.iter().map(|s| Some(at(*s))).collect(),
        ids: keys.iter().map(|key| RecordId::new(format!("r{key}"))).collect(),
        unusable: 0,
        high: keys.iter().max().map(|s| at(*s)),
        next: next.map(Cursor::from),
        run: 1,
        served_at: Some(at(1000)),
        now: Some(at(1000)),
        total: None,
    }
}

fn changes(after: i64) -> Walk {
    Walk::of_changes(Some(at(after)))
}

fn changed_from(second: i64) -> TimeRange {
    TimeRange::dated(TimeField::UpdatedAt, Some(at(second)), None)
}

#[test]
fn page_that_is_repeated_with_new_cursors_is_given_up() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 2], Some("first")));
    for n in 0..MAX_EMPTY {
        assert_eq!(walk.take(&page(&[1, 2], Some(&format!("c{n}")))).0, Next::Page);
    }
    let (next, anomalies) = walk.take(&page(&[1, 2], Some("last")));
    assert!(anomalies.contains(&Anomaly::RepeatedPage));
    let Next::Restart(mut again) = next else { panic!("{next:?}") };
    let mut pages = 0;
    while again.take(&page(&[2, 2], Some(&format!("d{pages}")))).0 == Next::Page {
        pages += 1;
    }
    assert_eq!(pages, MAX_EMPTY + 1, "a new page, and repetitions of it");
    assert_eq!(again.take(&page(&[2, 2], Some("e"))).0, Next::Stuck);
}

#[test]
fn walk_reads_to_the_end() {
    let mut walk = changes(0);
    assert_eq!(walk.take(&page(&[1, 2], Some("a"))), (Next::Page, vec![]));
    assert_eq!(walk.cursor(), Some(&Cursor::from("a")));
    assert_eq!(walk.take(&page(&[3], None)), (Next::End, vec![]));
    assert_eq!((walk.seen.high, walk.seen.rows), (Some(at(3)), 3));
}

#[test]
fn refused_cursor_restarts_with_gte_the_last_row() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5, 5], Some("a")));
    let Next::Restart(walk) = walk.restart() else { panic!() };
    assert_eq!(walk.range, changed_from(5));
    let params = walk.query(Resource::Contacts).to_params();
    assert!(params.contains(&("filter[updatedAt][gte]".into(), at(5).to_wire())), "{params:?}");
}

/// The cursor is refused within a tie, and refused there again: the rows are told apart by the other timestamp.
#[test]
fn tie_that_no_cursor_leads_through_is_read_by_creation() {
    let mut walk = changes(0);
    for (from, n) in [(None, 1), (Some(Some(at(5))), 2)] {
        walk.take(&page(&[5, 5], Some(&format!("c{n}"))));
        let Next::Restart(rest) = walk.restart() else { panic!() };
        walk = *rest;
        let expected = match from {
            None => changed_from(5),
            Some(_) => second_of_changes(at(5)),
        };
        assert_eq!(walk.range, expected);
    }
    let params = walk.query(Resource::Contacts).to_params();
    for (key, value) in [("sort", "createdAt".into()), ("filter[updatedAt][gte]", at(5).to_wire())] {
        assert!(params.contains(&(key.into(), value)), "{params:?}");
    }
    // By its own keys it goes on by value, and behind the tie by changes again.
    walk.take(&page(&[1, 3], Some("d")));
    let Next::Restart(rest) = walk.restart() else { panic!() };
    walk = *rest;
    assert_eq!(walk.range, second_of_changes(at(5)).starting_at(at(3)));
    let (Next::Restart(walk), _) = walk.take(&page(&[3, 4], None)) else { panic!() };
    assert_eq!(walk.range, changed_from(6));
    assert_eq!((walk.seen.high, walk.seen.pages), (Some(at(5)), 4));
}

/// Pages of ten rows, a second each, of which the last and the first are the same row.
fn ten(first: i64, next: Option<&str>) -> Facts {
    page(&(first..first + 10).collect::<Vec<_>>(), next)
}

fn sent(walk: &Walk) -> Vec<(String, String)> {
    walk.query(Resource::Contacts).to_params()
}

fn dated(from: impl Into<Option<i64>>, to: impl Into<Option<i64>>) -> TimeRange {
    TimeRange::dated(TimeField::CreatedAt, from.into().map(at), to.into().map(at))
}

#[test]
fn page_that_shows_a_row_of_the_page_before_follows_it_without_a_gap() {
    let mut walk = Walk::new(TimeRange::WHOLE);
    assert_eq!(walk.take(&ten(0, Some("a"))), (Next::Page, vec![]));
    assert_eq!(walk.cursor(), None);
    assert!(sent(&walk).contains(&("filter[createdAt][gte]".into(), at(9).to_wire())), "{:?}", sent(&walk));
    assert_eq!(walk.take(&ten(9, Some("b"))), (Next::Page, vec![]));
    // In a later run, too.
    let mut walk = serde_json::from_str::<Walk>(&serde_json::to_string(&walk).unwrap()).unwrap();
    walk = walk.resumed(2);
    assert!(sent(&walk).contains(&("filter[createdAt][gte]".into(), at(18).to_wire())));
    assert_eq!(walk.take(&ten(18, Some("c"))), (Next::Page, vec![]));
    assert_eq!((walk.seen.rows, &walk.seen.paged), (28, &vec![]), "each row once");
    // The row of both is gone.
    assert_eq!(walk.take(&ten(28, Some("d"))), (Next::Page, vec![]));
    assert_eq!(walk.seen.paged, [dated(26, 29)]);
    let (Next::Restart(rest), _) = walk.take(&ten(37, None)) else { panic!() };
    assert_eq!(rest.range.bounds, TimeBounds::Dateless, "no page by value has them");
    assert_eq!((rest.seen.rows, rest.seen.pages), (47, 5));
}

/// They are of two moments.
#[test]
fn totals_of_two_pages_do_not_show_that_every_row_has_a_date() {
    let mut walk = Walk::new(TimeRange::WHOLE).counted();
    walk.take(&Facts { total: Some(28), ..ten(0, Some("a")) });
    assert!(!sent(&walk).contains(&("count".into(), "exact".into())), "nothing depends on later totals");
    walk.take(&Facts { total: Some(19), ..ten(9, Some("b")) });
    assert!(matches!(walk.take(&ten(18, None)).0, Next::Restart(_)));
}

/// Hundreds of rows of one time: by value they would be read again and again.
#[test]
fn tie_is_read_by_cursor_and_owes_a_count_of_its_own() {
    let of = |keys: Vec<i64>, n: i64, next: Option<&str>| {
        let ids = (0..keys.len()).map(|row| RecordId::new(format!("{n}-{row}"))).collect();
        Facts { ids, ..page(&keys, next) }
    };
    let mut walk = Walk::new(dated(None, 100));
    walk.take(&of((0..60).chain([60; 40]).collect(), 0, Some("a")));
    assert_eq!(walk.cursor(), Some(&Cursor::from("a")));
    walk.take(&of(vec![60; 100], 1, Some("b")));
    assert_eq!(walk.cursor(), Some(&Cursor::from("b")));
    walk.take(&of([60; 40].into_iter().chain(61..90).collect(), 2, Some("c")));
    assert_eq!((walk.cursor(), &walk.seen.paged), (None, &vec![dated(59, 61)]), "behind the tie by value");
    // Few rows of one time are repeated, as long as that is cheap.
    let tail = |first: i64| (first..first + 40).chain([first + 40; 9]).collect::<Vec<_>>();
    let mut walk = Walk::new(TimeRange::WHOLE);
    walk.take(&page(&tail(0), Some("a")));
    assert_eq!(walk.cursor(), None);
    walk.take(&page(&[vec![40; 9], tail(41)].concat(), Some("b")));
    assert_eq!(walk.cursor(), Some(&Cursor::from("b")), "eight more than one were repeated");
    assert_eq!((walk.seen.rows, &walk.seen.paged), (98, &vec![]));
}

#[test]
fn page_by_value_that_leads_nowhere_is_followed_by_cursor() {
    // The filter compares whole minutes.
    let mut walk = Walk::new(TimeRange::WHOLE);
    walk.take(&ten(0, Some("a")));
    assert_eq!(walk.take(&ten(0, Some("b"))).0, Next::Page);
    assert_eq!(walk.cursor(), Some(&Cursor::from("b")));
    walk.take(&ten(10, Some("c")));
    assert_eq!((walk.seen.rows, &walk.seen.paged), (20, &vec![dated(8, 11)]));
}

#[test]
fn disorder_prevents_narrowing_the_range() {
    for (second, narrowed) in [([5, 6], true), ([5, 2], false)] {
        let mut walk = changes(0);
        let (_, anomaly) = walk.take(&page(&second, Some("a")));
        assert_eq!(anomaly.is_empty(), narrowed, "{anomaly:?}");
        let Next::Restart(walk) = walk.restart() else { panic!() };
        assert_eq!(walk.range != changes(0).range, narrowed, "{:?}", walk.range);
    }
}

/// One disorder must not keep a walk to cursors for ever, which the service may refuse.
#[test]
fn walk_that_begins_again_is_in_order_until_a_page_shows_otherwise() {
    for run in [1, 2] {
        let mut walk = Walk::new(TimeRange::WHOLE);
        walk.take(&page(&[5, 1], Some("a")));
        // A later run reads the last page again, which is another one now.
        let mut walk = walk.resumed(run);
        let restarted = if run == 1 { walk.restart() } else { walk.take(&page(&[2, 3], Some("b"))).0 };
        let Next::Restart(mut walk) = restarted else { panic!("{restarted:?}") };
        walk.take(&page(&[1, 2, 3, 4, 5, 6], Some("c")));
        assert_eq!(walk.cursor(), None, "run {run}");
        walk.take(&page(&[9, 7], Some("d")));
        assert!(!walk.orderly);
    }
}

#[test]
fn repeated_cursors_end_the_walk() {
    let mut walk = changes(0);
    walk.take(&page(&[1], Some("a")));
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < 50);
        match walk.take(&page(&[1], Some("a"))).0 {
            Next::Restart(rest) => walk = *rest,
            Next::Repeats => break,
            _ => {}
        }
    }
}

#[test]
fn walk_that_was_given_up_is_retried_in_the_next_run() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5], Some("dead")));
    while let Next::Restart(again) = walk.restart() {
        walk = Walk { next: walk.next, frontier: walk.frontier, ..*again };
    }
    assert_eq!(walk.restart(), Next::Stuck);
    let stored = serde_json::to_string(&walk).unwrap();
    let walk: Walk = serde_json::from_str(&stored).unwrap();
    let Next::Restart(walk) = walk.resumed(2).restart() else { panic!("no progress") };
    assert_eq!(walk.range, second_of_changes(at(5)).starting_at(at(5)));
}

#[test]
fn ten_thousand_rows_of_one_timestamp_are_not_a_repetition() {
    let mut walk = changes(0);
    for n in 0..100 {
        let ids = vec![RecordId::new(format!("tied{n}"))];
        let facts = Facts { ids, ..page(&[7; 100], Some(&format!("c{n}"))) };
        assert_eq!(walk.take(&facts), (Next::Page, vec![]));
    }
}

#[test]
fn constant_changes_are_left_to_the_next_run_with_the_cursor() {
    let mut walk = changes(0);
    let mut n = 0;
    let next = loop {
        n += 1;
        let now = Some(at(1000 + n));
        let (next, _) = walk.take(&Facts { now, ..page(&[1000 + n, 1001 + n], Some(&format!("c{n}"))) });
        if next != Next::Page {
            break next;
        }
    };
    assert_eq!((next, n), (Next::Later, 1 + i64::from(MAX_PAGES_BEYOND)));
    assert!(walk.cursor().is_some());
    assert_eq!(walk.take(&page(&[2000], Some("more"))).0, Next::Page, "the next run has as many pages again");
}

#[test]
fn anomalous_pages_are_reported() {
    let mut walk = changes(10);
    assert_eq!(walk.take(&page(&[], Some("a"))).1, [Anomaly::EmptyPage]);
    assert_eq!(walk.take(&page(&[10], Some("b"))).1, [Anomaly::RowOutsideFilter]);
    assert_eq!(walk.take(&page(&[11], Some("a"))).1, [], "the frontier has moved since `a` was followed");
}

#[test]
fn checkpoint_round_trips_through_storage() {
    let mut walk = changes(0).counted();
    walk.take(&page(&[1, 5], Some("a")));
    let text = serde_json::to_string(&walk).unwrap();
    let back: Walk = serde_json::from_str(&text).unwrap();
    assert_eq!(back, Walk { turn: Turn::default(), ..walk });
}

#[test]
fn a_cut_walk_ends_at_the_cut_and_keeps_its_cursor() {
    let mut walk = Walk::new(TimeRange::WHOLE).counted();
    walk.take(&page(&[1, 5], Some("a")));
    let mut low = walk.ending_at(at(20)).unwrap();
    assert_eq!((low.cursor(), low.seen.rows, low.range), (None, 2, dated(None, 20)));
    assert!(!low.size.counted);
    assert!(sent(&low).contains(&("filter[createdAt][gte]".into(), at(5).to_wire())));
    assert_eq!(low.take(&page(&[5, 6, 19], None)), (Next::End, vec![]));
    assert_eq!((low.seen.rows, &low.seen.paged), (4, &vec![]), "it shows the last row that was read");
    walk.take(&page(&[2], Some("b")));
    assert_eq!(walk.ending_at(at(20)), None, "what is out of order is not cut");
}

/// Rows of which so many fit into an answer: what a walk asks for, page by page.
fn sizes_where(fit: u8, mut walk: Walk, pages: usize, shows: impl Fn(u8) -> Facts) -> Vec<u8> {
    let mut sizes = Vec::new();
    while sizes.len() < pages {
        let size = walk.page_size().get();
        sizes.push(size);
        if size > fit {
            walk = walk.with_smaller_pages().unwrap();
            continue;
        }
        match walk.take(&shows(size)).0 {
            Next::Page => {}
            Next::Restart(rest) => walk = *rest,
            next => panic!("{next:?}"),
        }
    }
    sizes
}

#[test]
fn pages_that_were_made_smaller_grow_again() {
    let small = |range: TimeRange| {
        let mut walk = Walk::new(range);
        while let Some(smaller) = walk.with_smaller_pages() {
            walk = smaller;
        }
        walk
    };
    let next = std::cell::Cell::new(0);
    let rows = |size: u8| {
        let first = next.get();
        next.set(first + i64::from(size) - 1);
        page(&(first..first + i64::from(size)).collect::<Vec<_>>(), Some(&format!("c{first} {size}")))
    };
    for range in [TimeRange::WHOLE, changes(0).range, second_of_changes(at(0))] {
        next.set(1);
        assert_eq!(sizes_where(100, small(range), 10, rows), [1, 2, 4, 8, 16, 32, 64, 100, 100, 100], "{range:?}");
        next.set(1);
        let heavy = sizes_where(8, small(range), 20, rows);
        assert_eq!(heavy, [1, 2, 4, 8, 16, 8, 16, 8, 8, 16, 8, 8, 8, 8, 16, 8, 8, 8, 8, 8], "{range:?}");
    }
    // A tie is read through by its cursor: by value it would be read again.
    let tied = |size: u8| page(&vec![7; size.into()], Some(&format!("c{}", next.replace(next.get() + 1))));
    let walk = Walk { page_size: Some(4), ..changes(0) };
    assert_eq!(sizes_where(100, walk, 4, tied), [4; 4]);
    // The stored size is one that was read.
    let mut walk = Walk { page_size: Some(4), ..Walk::new(TimeRange::WHOLE) };
    walk.take(&ten(0, Some("a")));
    assert_eq!(walk.page_size().get(), 8);
    assert_eq!(walk.resumed(2).page_size().get(), 4);
}

/// Reads tied rows of which one, or every large page, cannot be read, until the walk ends or gives up.
fn requests_for(rng: &mut fastrand::Rng, rows: usize) -> usize {
    let mut keys: Vec<i64> = (0..rows).map(|_| rng.i64(0..=rows as i64 / 4)).collect();
    keys.sort_unstable();
    let (bad, fit, refuses) = (rng.usize(..2 * rows), rng.usize(1..40), rng.u8(..3) == 0);
    let range = match rng.u8(..3) {
        0 => TimeRange::WHOLE,
        1 => second_of_changes(at(0)),
        _ => changes(-1).range,
    };
    let (mut walk, mut requests) = (Walk::new(range), 0);
    loop {
        requests += 1;
        assert!(requests < 100_000, "{bad} {fit} {refuses} {walk:?}");
        let from = |from: Instant| keys.partition_point(|key| at(*key) < from);
        let start = match (walk.cursor(), walk.value().or(walk.range.bounds.dates().0)) {
            (Some(cursor), _) => cursor.as_str().parse().unwrap(),
            (None, value) => value.map_or(0, from),
        };
        let end = (start + usize::from(walk.page_size().get())).min(rows);
        let instead = if walk.cursor().is_some() && refuses {
            Some(walk.restart())
        } else if (start..end).contains(&bad) || end - start > fit {
            let Some(smaller) = walk.with_smaller_pages() else { return requests };
            Some(Next::Restart(Box::new(smaller)))
        } else {
            None
        };
        let next = instead.unwrap_or_else(|| {
            let ids = (start..end).map(|row| RecordId::new(format!("r{row}"))).collect();
            let next = (end < rows).then(|| Cursor::from(end.to_string().as_str()));
            walk.take(&Facts { ids, next, ..page(&keys[start..end], None) }).0
        });
        match next {
            Next::Page => {}
            Next::Restart(rest) => walk = *rest,
            Next::End | Next::Stuck | Next::Repeats | Next::Later => return requests,
        }
    }
}

#[test]
fn every_walk_ends_whatever_cannot_be_read() {
    for seed in 0..3_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rows = rng.usize(1..120);
        let requests = requests_for(&mut rng, rows);
        assert!(requests <= 100 + 6 * rows, "{seed}: {requests} requests for {rows} rows");
    }
}

#[test]
fn cursor_is_followed_in_its_run_and_later_only_where_values_lead_nowhere() {
    let resumed = |walk: &Walk, run: i64| walk.clone().resumed(run);
    let mut walk = Walk::new(TimeRange::WHOLE);
    for (keys, cursor, behind, by_value) in [
        (vec![1, 5], "a", None, Some(5)),
        (vec![5, 5], "b", Some("a"), Some(5)),
        (vec![5, 7], "c", None, Some(7)),
        (vec![9, 6], "d", Some("c"), None),
    ] {
        let facts = page(&keys, Some(cursor));
        walk.take(&facts);
        let starts_at = |walk: &Walk| {
            assert_eq!(walk.cursor(), None, "{cursor}");
            sent(walk).into_iter().find(|(name, _)| name == "filter[createdAt][gte]").map(|(_, value)| value)
        };
        let by_value = by_value.map(|second| at(second).to_wire());
        assert_eq!(resumed(&walk, 1).cursor(), Some(&Cursor::from(cursor)), "{cursor}");
        let again = resumed(&walk, 2);
        let Some(behind) = behind else {
            assert_eq!(starts_at(&again), by_value, "{cursor}, a later run");
            continue;
        };
        // The page is read again, and continued if it still ends with the same record.
        assert_eq!(again.cursor(), Some(&Cursor::from(behind)), "{cursor}");
        assert_eq!(again.clone().take(&facts).0, Next::Page);
        assert!(matches!(again.clone().take(&page(&[], Some(cursor))).0, Next::Restart(_)));
        assert!(matches!(again.clone().take(&page(&[keys[0], 8], Some(cursor))).0, Next::Restart(_)));
    }
}

/// As an app server in the wrong zone stamps a bulk change.
#[test]
fn rows_dated_ahead_of_their_answer_are_no_constant_changes() {
    let mut walk = changes(0);
    for n in 0..200 {
        assert_eq!(walk.take(&page(&[9_000 + n, 9_001 + n], Some(&format!("c{n}")))).0, Next::Page, "{n}");
    }
    assert_eq!(walk.ahead(Some(at(9_200))), None);
    assert_eq!(walk.ahead(Some(at(9_199))), Some(TimeRange::dated(TimeField::UpdatedAt, Some(at(9_201)), None)));
    let mut behind = walk.behind_known(at(9_500));
    assert!(sent(&behind).contains(&("filter[updatedAt][gte]".into(), at(9_501).to_wire())), "{:?}", sent(&behind));
    assert_eq!(behind.seen.paged, [TimeRange::dated(TimeField::UpdatedAt, Some(at(9_001)), Some(at(9_501)))]);
    assert_eq!(behind.take(&page(&[], None)).0, Next::End);
}
