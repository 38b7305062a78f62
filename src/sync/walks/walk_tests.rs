//! Cases of walks: ties, refused cursors, disorder, circles, churn.

use super::*;

fn at(second: i64) -> Instant {
    Instant::from_secs(1_700_000_000 + second).unwrap()
}

fn page(keys: &[i64], next: Option<&str>) -> Facts {
    Facts {
        keys: keys.iter().map(|s| Some(at(*s))).collect(),
        high: keys.iter().max().map(|s| at(*s)),
        next: next.map(Cursor::from),
        date: Some(at(1000)),
    }
}

fn changes(after: i64) -> Walk {
    Walk::new(Range::Changes { after: Some(at(after)), inclusive: false }, "k")
}

#[test]
fn a_walk_reads_to_the_end() {
    let mut walk = changes(0);
    assert_eq!(walk.take(&page(&[1, 2], Some("a"))), (Next::Page, vec![]));
    assert_eq!(walk.cursor, Some(Cursor::from("a")));
    assert_eq!(walk.take(&page(&[3], None)), (Next::End, vec![]));
    assert_eq!((walk.high, walk.rows), (Some(at(3)), 3));
}

#[test]
fn a_refused_cursor_restarts_with_gte_the_last_row() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5, 5], Some("a")));
    let Next::Restart(walks) = walk.restart() else { panic!() };
    assert_eq!(walks[0].range, Range::Changes { after: Some(at(5)), inclusive: true });
    let params = walks[0].query(Resource::Contacts).unwrap().to_params();
    assert!(params.contains(&("filter[updatedAt][gte]".into(), at(5).to_wire())), "{params:?}");
}

#[test]
fn a_refused_cursor_of_a_full_walk_still_reads_the_rows_without_a_date() {
    let mut walk = Walk::new(Range::All, "k");
    walk.take(&page(&[1, 5], Some("a")));
    let Next::Restart(walks) = walk.restart() else { panic!() };
    let ranges: Vec<_> = walks.into_iter().map(|w| w.range).collect();
    assert_eq!(ranges, [Range::Created { from: Some(at(5)), to: None }, Range::WithoutCreated]);
}

#[test]
fn disorder_forbids_narrowing_the_range() {
    let mut walk = changes(0);
    let (_, odd) = walk.take(&page(&[5, 2], Some("a")));
    assert_eq!(odd, [Oddity::UnorderedPage]);
    let Next::Restart(walks) = walk.restart() else { panic!() };
    assert_eq!(walks[0].range, walk.range);
}

#[test]
fn a_service_that_goes_in_circles_ends_the_walk() {
    let mut walk = changes(0);
    walk.take(&page(&[1], Some("a")));
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < 50);
        match walk.take(&page(&[1], Some("a"))).0 {
            Next::Restart(mut walks) => walk = walks.remove(0),
            Next::Stuck => break,
            _ => {}
        }
    }
}

#[test]
fn a_walk_that_was_given_up_in_one_run_is_tried_again_in_the_next() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5], Some("dead")));
    while let Next::Restart(walks) = walk.restart() {
        walk =
            Walk { cursor: Some(Cursor::from("dead")), frontier: walk.frontier, ..walks.into_iter().next().unwrap() };
    }
    let stored = serde_json::to_string(&walk).unwrap();
    let walk: Walk = serde_json::from_str(&stored).unwrap();
    assert_eq!(walk.restart(), Next::Stuck);
    let resumed = walk.under_key("k").remove(0);
    let Next::Restart(walks) = resumed.restart() else { panic!("stuck for ever") };
    assert_eq!(walks[0].range, Range::Changes { after: Some(at(5)), inclusive: true });
}

#[test]
fn ten_thousand_rows_of_one_timestamp_are_no_circle() {
    let mut walk = changes(0);
    for n in 0..100 {
        assert_eq!(walk.take(&page(&[7; 100], Some(&format!("c{n}")))), (Next::Page, vec![]));
    }
}

#[test]
fn churn_is_left_to_the_next_run_with_its_cursor() {
    let mut walk = changes(0);
    let mut n = 0;
    let next = loop {
        n += 1;
        let (next, _) = walk.take(&page(&[1000 + n, 1001 + n], Some(&format!("c{n}"))));
        if next != Next::Page {
            break next;
        }
    };
    assert_eq!((next, n), (Next::Later, i64::from(MOST_PAGES_BEYOND)));
    assert!(walk.cursor.is_some());
    assert_eq!(walk.take(&page(&[2000], Some("more"))).0, Next::Page, "the next run has as many pages again");
}

#[test]
fn odd_pages_are_named() {
    let mut walk = changes(10);
    assert_eq!(walk.take(&page(&[], Some("a"))).1, [Oddity::EmptyPage]);
    assert_eq!(walk.take(&page(&[10], Some("b"))).1, [Oddity::RowOutsideFilter]);
    assert_eq!(walk.take(&page(&[11], Some("a"))).1, [], "the frontier has moved since `a` was followed");
}

#[test]
fn another_key_gives_the_cursor_up() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5], Some("a")));
    let kept = walk.clone().under_key("k");
    assert_eq!(kept[0].cursor, Some(Cursor::from("a")));
    let given_up = walk.under_key("other");
    assert_eq!(given_up[0].cursor, None);
    assert_eq!(given_up[0].key, "other");
    assert_eq!(given_up[0].range, Range::Changes { after: Some(at(5)), inclusive: true });
}

#[test]
fn a_checkpoint_survives_being_stored() {
    let mut walk = changes(0);
    walk.take(&page(&[1, 5], Some("a")));
    let text = serde_json::to_string(&walk).unwrap();
    let back: Walk = serde_json::from_str(&text).unwrap();
    assert_eq!((back.cursor, back.frontier, back.high), (walk.cursor, walk.frontier, walk.high));
}
