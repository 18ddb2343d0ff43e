use super::*;

#[test]
fn it_travels_and_is_not_shown() {
    let secret = Secret::new(Zeroizing::new("ffee".to_owned()));
    let sent = serde_json::to_string(&secret).unwrap();
    assert_eq!(sent, r#""ffee""#);
    let received: Secret = serde_json::from_str(&sent).unwrap();
    assert_eq!(received.text(), "ffee");
    assert_eq!(received, secret);
    assert_eq!(format!("{secret:?}"), "Secret");
}
