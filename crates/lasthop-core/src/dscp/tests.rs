use super::*;

fn read(text: &str) -> Result<Dscp, String> {
    text.parse().map_err(|error: ParseError| error.to_string())
}

#[test]
fn names_have_the_numbers_of_their_rfcs() {
    for (name, number) in
        [("BE", 0), ("CS0", 0), ("CS7", 56), ("AF11", 10), ("AF23", 22), ("AF43", 38), ("EF", 46)]
    {
        assert_eq!(read(name), Ok(Dscp(number)), "{name}");
    }
    for class in 1..=4 {
        for precedence in 1..=3 {
            // RFC 2597, section 6: cccpp0.
            assert_eq!(read(&format!("AF{class}{precedence}")), Ok(Dscp(class << 3 | precedence << 1)));
        }
    }
}

#[test]
fn every_code_point_survives_being_written() {
    for number in 0..=Dscp::MAX {
        assert_eq!(read(&number.to_string()), Ok(Dscp(number)));
        assert_eq!(read(&Dscp(number).to_string()), Ok(Dscp(number)));
    }
    assert_eq!(Dscp::default().to_string(), "BE");
    assert_eq!(Dscp(11).to_string(), "11");
}

#[test]
fn what_is_no_code_point_is_refused_with_the_nearest_one() {
    for (text, part) in [
        ("AF44", "did you mean \"AF41\"?"),
        ("ef", "did you mean \"EF\"?"),
        ("64", "the nearest is 63"),
        ("-1", "the nearest is 0"),
        ("", "EF, AF11 to AF43"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}
