//! Textual signalling: JSON over HTTP between functions of the core, and SIP-like registrations.

use super::Procedure;

const ACCEPT: &str = "accept: application/json, application/problem+json";

pub(super) fn fetch_credentials(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let body = format!(
        "{{\"servingNetwork\":\"net07.region970.example\",\"requester\":\"{}\",\"counter\":{}}}",
        requester(procedure),
        rng.u32(0..100),
    );
    request("POST", procedure, "credentials", &body)
}

pub(super) fn credentials(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let body = format!(
        "{{\"type\":\"AKA\",\"nonce\":\"{}\",\"token\":\"{}\",\"subscriber\":\"{}\"}}",
        hex(rng, 32),
        hex(rng, 32),
        subscriber(procedure),
    );
    response("201 Created", &body)
}

pub(super) fn confirm_identity(procedure: &Procedure) -> Vec<u8> {
    let body = format!(
        "{{\"subscriber\":\"{}\",\"success\":true,\"requester\":\"{}\"}}",
        subscriber(procedure),
        requester(procedure),
    );
    request("PUT", procedure, "identity", &body)
}

pub(super) fn identity_confirmed(procedure: &Procedure) -> Vec<u8> {
    let body = format!("{{\"session\":\"{:08x}\"}}", procedure.session);
    response("200 OK", &body)
}

pub(super) fn report_usage(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let body = format!(
        "{{\"session\":\"{:08x}\",\"usage\":[{},{},{},{}]}}",
        procedure.session,
        usage(1, rng),
        usage(2, rng),
        usage(3, rng),
        usage(4, rng),
    );
    request("POST", procedure, "usage", &body)
}

pub(super) fn usage_reported(_: &Procedure) -> Vec<u8> {
    response("204 No Content", "")
}

pub(super) fn register(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let Procedure { session, call, .. } = procedure;
    let (user, address) = (subscriber(procedure), address(procedure));
    format!(
        "REGISTER sip:calls.example SIP/2.0\r\n\
         Via: SIP/2.0/UDP {address}:5060;branch=z9hG4bK{}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:{user}@calls.example>;tag={:08x}\r\n\
         To: <sip:{user}@calls.example>\r\n\
         Call-ID: {call:016x}@{address}\r\n\
         CSeq: {} REGISTER\r\n\
         Contact: <sip:{user}@{address}:5060>;expires=3600\r\n\
         Path: <sip:edge.calls.example:5060;lr>\r\n\
         P-Associated-URI: <sip:{user}@calls.example>\r\n\
         Content-Length: 0\r\n\r\n",
        hex(rng, 12),
        (call >> 32) as u32,
        session % 50 + 1,
    )
    .into_bytes()
}

pub(super) fn registered(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let Procedure { session, call, .. } = procedure;
    let (user, address) = (subscriber(procedure), address(procedure));
    format!(
        "SIP/2.0 200 OK\r\n\
         Via: SIP/2.0/UDP {address}:5060;received={address}\r\n\
         From: <sip:{user}@calls.example>;tag={:08x}\r\n\
         To: <sip:{user}@calls.example>;tag={}\r\n\
         Call-ID: {call:016x}@{address}\r\n\
         CSeq: {} REGISTER\r\n\
         Contact: <sip:{user}@{address}:5060>;expires=3600\r\n\
         Path: <sip:edge.calls.example:5060;lr>\r\n\
         P-Associated-URI: <sip:{user}@calls.example>\r\n\
         Content-Length: 0\r\n\r\n",
        (call >> 32) as u32,
        hex(rng, 8),
        session % 50 + 1,
    )
    .into_bytes()
}

/// A call from the subscriber, with a description of the media that it offers.
pub(super) fn invite(procedure: &Procedure, rng: &mut fastrand::Rng) -> Vec<u8> {
    let Procedure { session, call, .. } = procedure;
    let (user, address) = (subscriber(procedure), address(procedure));
    let port = 49_152 + session % 8000 * 2;
    let body = format!(
        "v=0\r\no=- {session} {session} IN IP4 {address}\r\ns=call\r\nc=IN IP4 {address}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 107 106 105 104\r\nb=AS:41\r\nb=RS:512\r\nb=RR:1537\r\n\
         a=rtpmap:107 AMR-WB/16000/1\r\na=fmtp:107 mode-change-capability=2;max-red=0\r\n\
         a=rtpmap:106 AMR/8000/1\r\na=fmtp:106 mode-change-capability=2;max-red=0\r\n\
         a=rtpmap:105 telephone-event/16000\r\na=rtpmap:104 telephone-event/8000\r\n\
         a=ptime:20\r\na=maxptime:240\r\na=sendrecv\r\n",
    );
    format!(
        "INVITE sip:99970{:010}@calls.example SIP/2.0\r\n\
         Via: SIP/2.0/UDP {address}:5060;branch=z9hG4bK{}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:{user}@calls.example>;tag={:08x}\r\n\
         To: <sip:99970{:010}@calls.example>\r\n\
         Call-ID: {call:016x}@{address}\r\n\
         CSeq: {} INVITE\r\n\
         Contact: <sip:{user}@{address}:5060>\r\n\
         Content-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{body}",
        procedure.subscriber + 1,
        hex(rng, 12),
        (call >> 32) as u32,
        procedure.subscriber + 1,
        session % 50 + 2,
        body.len(),
    )
    .into_bytes()
}

/// The traffic of one rule.
fn usage(rule: u8, rng: &mut fastrand::Rng) -> String {
    let (up, down) = (rng.u32(1000..1_000_000), rng.u32(1000..1_000_000));
    format!(
        "{{\"rule\":{rule},\"state\":\"active\",\"class\":\"default\",\"up\":{up},\"down\":{down}}}"
    )
}

fn request(method: &str, procedure: &Procedure, resource: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} /core/v1/{}/{resource} HTTP/1.1\r\nhost: 10.45.0.12:7777\r\n{ACCEPT}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        subscriber(procedure),
        body.len(),
    )
    .into_bytes()
}

fn response(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nserver: core/2.4\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len(),
    )
    .into_bytes()
}

fn subscriber(procedure: &Procedure) -> String {
    format!("99970{:010}", procedure.subscriber)
}

/// One of four functions of the core.
fn requester(procedure: &Procedure) -> String {
    format!("access-{}.core.example", procedure.session % 4)
}

fn address(procedure: &Procedure) -> String {
    let [_, _, high, low] = procedure.session.to_be_bytes();
    format!("10.46.{high}.{low}")
}

fn hex(rng: &mut fastrand::Rng, digits: usize) -> String {
    (0..digits)
        .map(|_| char::from_digit(rng.u32(0..16), 16).unwrap_or('0'))
        .collect()
}
