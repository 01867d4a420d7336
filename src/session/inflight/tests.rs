use super::*;

#[test]
fn blocks_count_as_what_they_became_once_some_are_acknowledged() {
    let mut inflight = Inflight::default();
    let mut link = LinkEstimator::default();
    inflight.on_block(500, 4000, 500, Fed::Overlapping);
    inflight.on_written(Time::ZERO, 500, None);
    assert_eq!(inflight.ahead(), 4000);
    assert!((inflight.ratio() - 1.0).abs() < f64::EPSILON);
    let now = Time::from_nanos(1_000_000);
    let ack = Ack {
        frames: 1,
        wire_bytes: 500,
        received_nanos: 500_000,
        ..Ack::default()
    };
    inflight
        .on_ack(now, &ack, 500, &mut RttEstimator::default(), &mut link)
        .expect("of what was sent");
    inflight.on_block(1000, 8000, 1500, Fed::Overlapping);
    assert_eq!(inflight.ahead(), 1000);
    assert!((inflight.ratio() - 8.0).abs() < f64::EPSILON);
    // What grows instead counts as it is.
    let mut grown = Inflight {
        acked_bytes: (110, 100),
        ..Inflight::default()
    };
    grown.on_block(110, 100, 110, Fed::Overlapping);
    assert!((grown.ratio() - 1.0).abs() < f64::EPSILON);
}

/// What a link that takes no time seems to carry where blocks of 300 bytes leave one after another, `pause` apart, and are acknowledged
/// a few, or some more, at a time.
fn paced(pause: Duration) -> LinkRate {
    const LEN: usize = 300;
    const ONE_WAY: Duration = Duration::from_micros(50);
    let mut inflight = Inflight::default();
    let mut link = LinkEstimator::default();
    let rtt = Duration::from_micros(90);
    let mut known_rtt = RttEstimator::default();
    known_rtt.record(Time::ZERO, rtt);
    let (mut now, mut position, mut frames) = (Time::from_nanos(1_000_000), 0, 0);
    for blocks in (0..60).map(|ack| 1 + ack * 7 % 31) {
        for _ in 0..blocks {
            now = now + pause;
            position += LEN as u64;
            frames += 1;
            inflight.on_block(LEN, LEN, position, Fed::Overlapping);
            inflight.on_written(now, position, Some(rtt));
        }
        let received = now + ONE_WAY;
        let ack = Ack {
            frames,
            wire_bytes: position,
            received_nanos: received.as_nanos(),
            waited_nanos: received.as_nanos(),
            ..Ack::default()
        };
        inflight
            .on_ack(
                received + ONE_WAY,
                &ack,
                position,
                &mut known_rtt,
                &mut link,
            )
            .expect("of what was sent");
    }
    link.rate()
}

#[test]
fn a_block_that_was_there_and_back_sooner_than_any_probe_is_the_least_round_trip() {
    const LEN: usize = 62;
    const RATE: f64 = 125e3;
    let micros = Duration::from_micros;
    let mut inflight = Inflight::default();
    let mut link = LinkEstimator::default();
    // The only probe waited behind what opened the connection.
    let mut rtt = RttEstimator::default();
    rtt.record(Time::ZERO, micros(1200));
    let on_link = Duration::from_secs_f64(LEN as f64 / RATE);
    let mut now = Time::from_nanos(1_000_000);
    for frames in 1..=40 {
        now = now + micros(5000);
        let position = frames * LEN as u64;
        inflight.on_block(LEN, LEN, position, Fed::Overlapping);
        inflight.on_written(now, position, rtt.min());
        let received = now + micros(100) + on_link;
        let ack = Ack {
            frames,
            wire_bytes: position,
            received_nanos: received.as_nanos(),
            ..Ack::default()
        };
        inflight
            .on_ack(received + micros(100), &ack, position, &mut rtt, &mut link)
            .expect("of what was sent");
    }
    assert_eq!(rtt.min(), Some(micros(200) + on_link));
    // Within what the blocks' own time in the least round trip makes of it.
    let shown = link.link_rate().expect("a bound").get();
    assert!(shown < 10.0 * RATE, "{shown}");
}

/// What a link of 1 MB/s is taken for that was taken for twice that, if it `was_known`, where blocks of 1 ms each leave so many ahead of the one that
/// arrives, or `pause` later.
fn under_way(was_known: bool, ahead: usize, pause: Duration) -> LinkRate {
    const LEN: usize = 1000;
    let micros = Duration::from_micros;
    let (way, on_link) = (micros(800), micros(1000));
    let mut inflight = Inflight::default();
    let mut link = LinkEstimator::default();
    if was_known {
        link.record_delivery(200_000, micros(100_000), Fed::Backlogged);
    }
    let mut rtt = RttEstimator::default();
    inflight.on_probe(1, 0, 20);
    let mut now = Time::from_nanos(1_000_000);
    inflight.on_written(now, 20, None);
    let reply = ProbeReply {
        id: 1,
        received_nanos: (now + way).as_nanos(),
        held_nanos: 0,
        load_permille: 0,
        codec_budget: 0,
        decoded: Vec::new(),
    };
    inflight.on_probe_reply(now + way * 2, &reply, &mut rtt, &mut link);
    let mut arrivals = vec![now + way];
    let mut position = 20;
    for number in 1..=200 {
        // The blocks before are acknowledged four at a time, once they have come.
        let before = arrivals[arrivals.len().saturating_sub(ahead)];
        now = now.max(before + pause);
        position += LEN as u64;
        inflight.on_block(LEN, LEN, position, Fed::Overlapping);
        inflight.on_written(now, position, rtt.min());
        let on_its_way = (now + way).max(*arrivals.last().expect("a first"));
        arrivals.push(on_its_way + on_link);
        if number % 4 == 0 {
            let received = arrivals[number - 3];
            let ack = Ack {
                frames: number as u64 - 3,
                wire_bytes: position - 3 * LEN as u64,
                received_nanos: received.as_nanos(),
                ..Ack::default()
            };
            let came = now.max(received + way);
            inflight
                .on_ack(came, &ack, position, &mut rtt, &mut link)
                .expect("of what was sent");
        }
    }
    link.rate()
}

#[test]
fn blocks_that_wait_for_others_on_the_link_show_its_rate() {
    let is_about = |rate, megabytes: f64| match rate {
        LinkRate::About(rate) => (rate.get() / 1e6 / megabytes - 1.0).abs() < 0.05,
        _ => false,
    };
    for was_known in [false, true] {
        let queued = under_way(was_known, 3, Duration::ZERO);
        assert!(is_about(queued, 1.0), "{was_known}: {queued:?}");
    }
    // Nothing is on the link for a quarter of the time.
    let pause = Duration::from_micros(500);
    let paced = under_way(true, 2, pause);
    assert!(is_about(paced, 2.0), "{paced:?}");
    let paced = under_way(false, 2, pause);
    assert!(!matches!(paced, LinkRate::About(_)), "{paced:?}");
}

#[test]
fn the_pace_of_an_application_is_no_rate_of_the_link() {
    for pause in [20, 70, 89, 300].map(Duration::from_micros) {
        let rate = paced(pause);
        assert!(!matches!(rate, LinkRate::About(_)), "{pause:?}: {rate:?}");
    }
}

#[test]
fn a_plain_block_shows_the_rate_though_others_are_acknowledged_with_it() {
    let us = |micros: u64| Time::from_nanos(1000 * micros);
    let rate = |checks: bool| {
        let mut inflight = Inflight::default();
        let mut link = LinkEstimator::default();
        let mut known_rtt = RttEstimator::default();
        known_rtt.record(Time::ZERO, Duration::from_micros(40));
        // One that was known wrongly.
        link.record_delivery(2_000_000, Duration::from_millis(10), Fed::Backlogged);
        if checks {
            inflight.check_next();
        }
        inflight.on_block(65_536, 65_536, 65_536, Fed::Overlapping);
        inflight.on_written(us(1000), 65_536, None);
        inflight.on_block(15_000, 65_536, 80_536, Fed::Overlapping);
        inflight.on_written(us(1040), 80_536, None);
        let ack = Ack {
            frames: 2,
            wire_bytes: 80_536,
            received_nanos: 1_070_000,
            ..Ack::default()
        };
        inflight
            .on_ack(us(1100), &ack, 80_536, &mut known_rtt, &mut link)
            .expect("of what was sent");
        link.likely_rate()
    };
    // 80 536 bytes in the 60 us beyond the least round trip.
    assert!((rate(true) / 1.342e9 - 1.0).abs() < 0.01, "{}", rate(true));
    assert!(rate(false) < 0.6e9, "{}", rate(false));
}
