use super::*;

#[test]
fn a_link_that_becomes_slow_is_known_by_a_handful_of_lone_blocks() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut send = |link: &mut LinkEstimator, first: u64, blocks: u64, nanos_per_byte: u64| {
        for block in first..first + blocks {
            let bytes = rng.u64(60..400);
            let one_way = Duration::from_nanos(50_000 + nanos_per_byte * bytes);
            let now = Time::ZERO + Duration::from_millis(2 * block);
            link.record_flight(now, bytes as usize, one_way);
        }
    };
    for distrusts in [false, true] {
        let mut link = LinkEstimator::default();
        link.record_delivery(1 << 20, Duration::from_millis(84), Fed::Backlogged);
        send(&mut link, 0, 200, 80);
        let known = link.likely_rate();
        assert!((10e6..15e6).contains(&known), "{known}");
        // A hundredth of that, or a peer that does not get to read.
        link.set_distrust_falls(distrusts);
        send(&mut link, 200, 30, 8000);
        let then = link.likely_rate();
        let expected = if distrusts { known } else { 125e3 };
        assert!((then / expected).ln().abs() < 0.5, "{then} {expected}");
    }
}

#[test]
fn what_ends_or_begins_in_the_middle_of_a_packet_is_no_other_rate() {
    // 100 kbit/s: a packet takes 116 ms, and what is in it comes at once.
    let mut link = LinkEstimator::default();
    link.record_delivery(20_000, Duration::from_millis(1600), Fed::Backlogged);
    for fed in [Fed::Backlogged, Fed::Overlapping] {
        for (bytes, millis) in [(677, 3), (750, 116), (2000, 47)] {
            link.record_delivery(bytes, Duration::from_millis(millis), fed);
            let rate = link.likely_rate();
            assert!((rate / 12_500.0 - 1.0).abs() < 0.01, "{bytes} B: {rate}");
        }
    }
    // What no packet explains is another link.
    link.record_delivery(20_000, Duration::from_millis(160), Fed::Backlogged);
    assert!(link.likely_rate() > 50e3);
}

#[test]
fn one_slow_flight_says_as_much_as_it_fits_what_is_known() {
    // 1 Mbit/s, taken for a fourth more; connections of one block each.
    let mut link = LinkEstimator::default();
    link.record_delivery(155_000, Duration::from_secs(1), Fed::Backlogged);
    let mut connection = |bytes: u64| {
        link.restart();
        link.record_probe(Time::ZERO, Duration::from_millis(10));
        let one_way = Duration::from_millis(10) + Duration::from_micros(8 * bytes);
        link.record_flight(Time::from_nanos(1 << 30), bytes as usize, one_way);
        link.likely_rate()
    };
    for _ in 0..12 {
        connection(11_000);
    }
    let rate = connection(11_000);
    assert!((rate / 125e3 - 1.0).abs() < 0.01, "{rate}");
    // A peer that sleeps for ten times as long as the block takes.
    link.restart();
    link.record_probe(Time::ZERO, Duration::from_millis(10));
    link.record_flight(
        Time::from_nanos(1 << 30),
        11_000,
        Duration::from_millis(900),
    );
    assert!((link.likely_rate() / rate - 1.0).abs() < 1e-9);
}

#[test]
fn the_minimum_forgets_a_route_that_is_gone() {
    let mut rtt = RttEstimator::default();
    let at = |secs| Time::ZERO + Duration::from_secs(secs);
    rtt.record(at(0), Duration::from_millis(1));
    for secs in 1..40 {
        rtt.record(at(secs), Duration::from_millis(50));
    }
    assert_eq!(rtt.min(), Some(Duration::from_millis(50)));
}

#[test]
fn pauses_of_the_application_do_not_look_like_a_slow_link() {
    let mut link = LinkEstimator::default();
    link.record_delivery(1_000_000, Duration::from_millis(100), Fed::Backlogged);
    link.record_delivery(1000, Duration::from_millis(100), Fed::Overlapping);
    link.record_delivery(1000, Duration::from_millis(100), Fed::Idle);
    assert!((link.link_rate().expect("measured").get() - 1e7).abs() < 1.0);
}

#[test]
fn a_slow_first_hop_is_the_links_rate_and_a_fast_one_says_nothing() {
    let rate = |bytes| BytesPerSec::new(bytes).expect("a rate");
    let mut link = LinkEstimator::default();
    for _ in 0..20 {
        link.record_delivery(1_000_000, Duration::from_millis(100), Fed::Backlogged);
    }
    link.record_first_hop(rate(1e9), Duration::from_millis(20));
    assert!((link.likely_rate() / 1e7 - 1.0).abs() < 1e-6);
    for _ in 0..20 {
        link.record_first_hop(rate(2e6), Duration::from_millis(20));
    }
    assert!((link.likely_rate() / 2e6 - 1.0).abs() < 0.05, "{link:?}");
}

#[test]
fn a_moment_of_backlog_on_a_link_that_was_fast_is_no_rate() {
    let mut link = LinkEstimator::default();
    let micros = Duration::from_micros;
    link.record_delivery(1_000_000, micros(200), Fed::Overlapping);
    // Somebody else had the processors.
    link.record_delivery(65_536, micros(1200), Fed::Backlogged);
    assert!(matches!(link.rate(), LinkRate::AtLeast(_)), "{link:?}");
    // .. or the peer's, of a message by itself, after others that were fast.
    link.record_passage(65_536, micros(300), micros(200));
    let flight = |link: &mut LinkEstimator, millis| {
        link.record_flight(Time::ZERO, 65_536, Duration::from_millis(millis));
    };
    flight(&mut link, 1);
    flight(&mut link, 5);
    link.record_delivery(65_536, micros(4400), Fed::Backlogged);
    assert!(matches!(link.rate(), LinkRate::AtLeast(_)), "{link:?}");
    for _ in 0..20 {
        link.record_delivery(65_536, micros(1200), Fed::Backlogged);
    }
    let LinkRate::About(rate) = link.rate() else {
        panic!("{link:?}");
    };
    assert!((rate.get() / 54.6e6 - 1.0).abs() < 0.1, "{rate:?}");
}

#[test]
fn a_block_shows_no_more_than_the_least_round_trip_allows_that_is_found_later() {
    const RATE: f64 = 125e3;
    let micros = Duration::from_micros;
    let mut link = LinkEstimator::default();
    // Of so many bytes more than a probe and its reply.
    let mut pass = |bytes: usize, least: Duration| {
        let rtt = micros(300) + Duration::from_secs_f64(bytes as f64 / RATE);
        link.record_passage(bytes + LEAST_ROUND as usize, rtt, least);
        link.link_rate().expect("a bound").get()
    };
    // A probe that waited was taken for the least; then another one did not.
    assert!(pass(116, micros(1200)) > 5.0 * RATE);
    let shown = pass(60, micros(300));
    assert!((shown / RATE - 1.0).abs() < 1e-3, "{shown}");
    // A route that is longer takes nothing back.
    assert!((pass(2000, micros(301)) / shown - 1.0).abs() < 1e-3);
}

#[test]
fn short_blocks_show_no_more_of_a_slow_link_than_there_is() {
    const RATE: f64 = 125e3;
    let on_link = |bytes: usize| Duration::from_secs_f64(bytes as f64 / RATE);
    let (between, ack) = (Duration::from_micros(100), 20);
    // A probe and its reply.
    let least = between + on_link(4 + 45);
    for bytes in 35..5000 {
        let mut link = LinkEstimator::default();
        link.record_passage(bytes, between + on_link(bytes + ack), least);
        let shown = link.link_rate().expect("a bound").get();
        assert!(shown < 1.2 * RATE, "{bytes}: {shown}");
        assert!(bytes < 200 || shown > 0.7 * RATE, "{bytes}: {shown}");
    }
}

#[test]
fn a_link_that_has_become_slow_shows_itself_though_much_has_passed() {
    let ms = Duration::from_millis;
    let fast = || {
        let mut link = LinkEstimator::default();
        link.record_delivery(1_000_000, Duration::from_micros(200), Fed::Overlapping);
        link
    };
    let known = |link: &LinkEstimator| match link.rate() {
        LinkRate::About(rate) => rate.get(),
        other => panic!("{other:?}"),
    };
    // Under backlog at once, if it takes longer than processors are ever waited for.
    let mut link = fast();
    link.record_delivery(2_500, ms(20), Fed::Backlogged);
    assert!((known(&link) / 125e3 - 1.0).abs() < 0.01);
    // By single messages with the third one, if none is faster in between.
    let mut link = fast();
    for one_way in [1, 6, 6, 6] {
        link.record_flight(Time::ZERO, 65_536, ms(one_way));
    }
    assert!((known(&link) / 13.1e6 - 1.0).abs() < 0.05);
    let mut link = fast();
    for one_way in [1, 6, 6, 1, 6, 1] {
        let rtt = ms(one_way) + ms(1);
        link.record_flight(Time::ZERO, 65_536, ms(one_way));
        link.record_passage(65_536, rtt, ms(2));
    }
    assert!(matches!(link.rate(), LinkRate::AtLeast(_)), "{link:?}");
    // Where nothing speaks against it, with the first.
    let mut link = LinkEstimator::default();
    for one_way in [1, 6] {
        link.record_flight(Time::ZERO, 65_536, ms(one_way));
    }
    assert!((known(&link) / 13.1e6 - 1.0).abs() < 0.05);
}

#[test]
fn a_fast_link_that_was_never_busy_is_taken_for_a_faster_one() {
    let reckoned = |rate: f64| {
        let mut link = LinkEstimator::default();
        link.record_delivery(rate as u64, Duration::from_secs(1), Fed::Overlapping);
        link.likely_rate()
    };
    // As fast as assumed is nothing special.
    assert!((reckoned(130e6) / 130e6 - 1.0).abs() < 1e-6);
    let mut last = 0.0;
    for rate in [0.4e9, 1e9, 2e9, 5e9, 9.9e9] {
        let faster = reckoned(rate);
        assert!(faster > rate && faster > last && faster < MEMORY, "{rate}");
        last = faster;
    }
    assert!((reckoned(20e9) / 20e9 - 1.0).abs() < 1e-6);
}

#[test]
fn a_link_on_which_a_block_takes_no_time_is_taken_for_a_faster_one() {
    let us = Duration::from_micros;
    let reckoned = |bytes, rtt| {
        let mut link = LinkEstimator::default();
        link.record_passage(bytes + LEAST_ROUND as usize, rtt, us(20));
        (link.link_rate().expect("a bound").get(), link.likely_rate())
    };
    // 200 bytes more than a probe and its reply within 2 µs or less: 100 MB/s at least.
    let (bound, likely) = reckoned(200, us(21));
    assert!((bound / 100e6 - 1.0).abs() < 1e-6);
    assert!((3.0 * bound..MEMORY).contains(&likely), "{likely}");
    // What takes as long again as the least round trip is on the link for that long.
    let (bound, likely) = reckoned(4000, us(40));
    assert!((bound / 200e6 - 1.0).abs() < 1e-6 && (likely / bound - 1.0).abs() < 1e-6);
    // A slow link stays one, however short the block.
    let (_, likely) = reckoned(40, us(21));
    assert!(likely < 2.0 * ASSUMED, "{likely}");
}

#[test]
fn lone_blocks_of_different_lengths_show_the_rate() {
    let mut link = LinkEstimator::default();
    for bytes in [200_usize, 1400, 90, 700, 300, 500, 100] {
        let one_way = Duration::from_nanos(200_000 + 80 * bytes as u64);
        link.record_flight(Time::ZERO, bytes, one_way);
    }
    assert!((link.link_rate().expect("measured").get() - 12.5e6).abs() < 1e3);
}

/// The rate by which a plain block of 64 KiB is reckoned that may show the link's once others have cost twenty times as much.
fn check_rate(link: &LinkEstimator) -> Option<f64> {
    let len = 64 << 10;
    let may = |cost: u64| {
        let mut link = link.clone();
        link.on_chosen(Duration::ZERO, true);
        link.on_chosen(Duration::from_nanos(cost), false);
        link.may_check(len)
    };
    let (mut least, mut most) = (0, 1 << 40);
    if !may(most) {
        return None;
    }
    while most - least > 1 {
        let middle = least.midpoint(most);
        *if may(middle) { &mut most } else { &mut least } = middle;
    }
    Some(len as f64 * 1e9 / (0.05 * most as f64))
}

#[test]
fn what_a_stall_made_of_a_fast_link_is_mended_by_one_plain_block() {
    let us = Duration::from_micros;
    let mut link = LinkEstimator::default();
    assert_eq!(check_rate(&link), None, "nothing has passed");
    // 100 MB/s at least.
    link.record_passage(10_000, us(140), us(40));
    let least = check_rate(&link).expect("at least");
    assert!((least / 100e6 - 1.0).abs() < 0.01, "{least}");
    // An end had no processor for some milliseconds.
    for _ in 0..20 {
        link.record_delivery(400_000, us(2000), Fed::Backlogged);
    }
    let known = check_rate(&link).expect("in doubt");
    assert!((known / 200e6 - 1.0).abs() < 0.01, "{known}");
    // Compressed blocks show no more than what they are in the time that wakes take.
    for _ in 0..100 {
        link.record_passage(15_000, us(140), us(40));
    }
    assert!(link.likely_rate() < 1.01 * known);
    link.record_check(65_536, us(72), us(40));
    let shown = link.likely_rate();
    assert!((shown / 2.048e9 - 1.0).abs() < 0.01, "{shown}");
    // Once two show no more, it is believed.
    link.record_check(65_536, us(140), us(40));
    link.record_check(65_536, us(140), us(40));
    assert!(check_rate(&link).is_none() && link.likely_rate() >= shown);
    // What a slow link is shows itself.
    let mut slow = LinkEstimator::default();
    slow.record_passage(10_000, us(10_040), us(40));
    assert_eq!(check_rate(&slow), None);
    slow.record_delivery(100_000, us(100_000), Fed::Backlogged);
    assert_eq!(check_rate(&slow), None);
}

#[test]
fn short_connections_have_the_block_together_that_shows_a_fast_link() {
    let us = Duration::from_micros;
    let mut link = LinkEstimator::default();
    link.record_delivery(2_640_000, us(16_000), Fed::Backlogged);
    assert!((link.likely_rate() / 165e6 - 1.0).abs() < 0.01);
    // Each of a millisecond, of which such a block would take .4: the first ones have none.
    let mut checks = Vec::new();
    for connection in 0..400 {
        link.restart();
        for _ in 0..25 {
            let is_check = link.may_check(64 << 10);
            link.on_chosen(us(40), is_check);
            if is_check {
                checks.push(connection);
                link.record_check(65_536, us(440), us(40));
            }
        }
    }
    assert!((5..=9).contains(&checks[0]), "{checks:?}");
    // The longer they show nothing, the fewer they are.
    let late = checks.iter().filter(|at| **at >= 200).count();
    assert!((1..=3).contains(&late), "{checks:?}");
    // But one that does is believed, and followed by others as at first.
    link.record_check(65_536, us(72), us(40));
    assert!(link.likely_rate() > 1e9);
    link.on_chosen(Duration::from_millis(2), false);
    assert!(link.may_check(64 << 10));
}
