use super::*;

/// What is asked, and what comes of the parts of an answer.
fn asked<Q: Single>(query: Q, parts: Vec<Response>) -> (Request, Result<Q::Answer, Failure>) {
    let mut request = None;
    let found = answer_of(query, |asked, part| {
        request = Some(asked.clone());
        parts.into_iter().try_for_each(part)
    });
    (request.unwrap(), found)
}

#[test]
fn the_answer_is_what_was_asked_for() {
    let (request, found) = asked(
        ProgressOfSend { number: 5 },
        vec![Response::SendProgress(None)],
    );
    assert_eq!(found.unwrap(), None);
    assert_eq!(
        serde_json::to_string(&request).unwrap(),
        r#"{"SendProgress":{"number":5}}"#
    );
    let (request, found) = asked(ClearEvents, vec![Response::EventsCleared(3)]);
    assert_eq!(found.unwrap(), 3);
    assert_eq!(serde_json::to_string(&request).unwrap(), r#""ClearEvents""#);
}

#[test]
fn silence_and_another_answer_are_errors() {
    let cleared = || Response::EventsCleared(3);
    let bad = [
        vec![],
        vec![cleared()],
        vec![Response::DeleteQueue(1), cleared()],
        vec![Response::DeleteQueue(1), Response::DeleteQueue(1)],
        vec![Response::Line("?".into())],
    ];
    for parts in bad {
        let name = "p".to_owned();
        let failure = asked(DeleteQueue { name }, parts).1.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Service);
        assert!(failure.to_string().contains("another request"), "{failure}");
    }
}

#[test]
fn pages_and_warnings_come_in_turn() {
    let warning = Failure::new(FailureKind::Missing, "one");
    let heard = |parts: Vec<Response>| {
        let mut heard = Vec::new();
        let call = |_: &Request, part: Part<'_>| parts.into_iter().try_for_each(part);
        let ended = pages_of(Events { after: 0 }, call, &mut |page| {
            heard.push(page);
            Ok(())
        });
        (heard, ended.is_ok())
    };
    let page = || Response::Events(Vec::new());
    let both = vec![page(), Response::Warning(warning.clone()), page()];
    let expected = [
        Heard::Page(Vec::new()),
        Heard::Warning(warning),
        Heard::Page(Vec::new()),
    ];
    assert_eq!(heard(both), (expected.into(), true));
    assert_eq!(heard(Vec::new()), (Vec::new(), true));
    assert_eq!(
        heard(vec![Response::History(Vec::new())]),
        (Vec::new(), false)
    );
    assert_eq!(
        heard(vec![Response::Line(String::new())]),
        (Vec::new(), false)
    );
}

/// A command of one version may ask a daemon of another.
#[test]
fn requests_travel_as_before() {
    let name = || "p/a".to_owned();
    let all = [
        (
            PoolProperties(Selection::All).request(),
            r#"{"Pool":"All"}"#,
        ),
        (
            Vdevs {
                names: vec![name()],
                properties: Selection::Names(vec![name()]),
            }
            .request(),
            r#"{"Vdevs":{"names":["p/a"],"properties":{"Names":["p/a"]}}}"#,
        ),
        (Status.request(), r#""Status""#),
        (
            History { internal: true }.request(),
            r#"{"History":{"internal":true}}"#,
        ),
        (
            Holds {
                snapshots: vec![name()],
                recursive: false,
            }
            .request(),
            r#"{"Holds":{"snapshots":["p/a"],"recursive":false}}"#,
        ),
        (
            OwnerSpace {
                name: name(),
                kinds: vec![OwnerKind::User],
            }
            .request(),
            r#"{"OwnerSpace":{"name":"p/a","kinds":["User"]}}"#,
        ),
        (
            Grants { name: name() }.request(),
            r#"{"Grants":{"name":"p/a"}}"#,
        ),
        (
            Diff {
                from: name(),
                to: name(),
            }
            .request(),
            r#"{"Diff":{"from":"p/a","to":"p/a"}}"#,
        ),
        (
            DeleteQueue { name: name() }.request(),
            r#"{"DeleteQueue":{"name":"p/a"}}"#,
        ),
        (
            KeyRoots {
                name: name(),
                below: true,
            }
            .request(),
            r#"{"KeyRoots":{"name":"p/a","below":true}}"#,
        ),
        (MountedDatasets.request(), r#""Mounted""#),
        (Metrics.request(), r#""Metrics""#),
        (IoStatistics.request(), r#""IoStatistics""#),
        (Events { after: 7 }.request(), r#"{"Events":{"after":7}}"#),
    ];
    for (request, text) in all {
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
    }
}
