//! The browser's parser of responses. Their sizes must be those of the site: all measurements depend on them.

use super::Answer;
use crate::error::Error;
use httparse::{EMPTY_HEADER, Response, Status};
use std::collections::VecDeque;

const FIELDS_MAX: usize = 32;
const OK: u16 = 200;

#[derive(Debug, Default)]
pub struct Answers {
    expected: VecDeque<Answer>,
    /// The received part of the next header.
    header: Vec<u8>,
    /// The missing bytes of a body.
    body_left: u64,
}

impl Answers {
    /// The browser has requested this object.
    pub fn expect(&mut self, answer: Answer) {
        self.expected.push_back(answer);
    }

    pub fn read(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let body = bytes.len().min(usize::try_from(self.body_left).unwrap_or(usize::MAX));
                self.body_left -= body as u64;
                bytes = &bytes[body..];
                continue;
            }
            let before = self.header.len();
            self.header.extend_from_slice(bytes);
            let Some((header_bytes, body_bytes)) = self.parse()? else { return Ok(()) };
            bytes = &bytes[header_bytes - before..];
            self.header.clear();
            self.body_left = body_bytes;
        }
        Ok(())
    }

    /// The sizes of the next response's header and body, once the header is complete.
    fn parse(&mut self) -> Result<Option<(usize, u64)>, Error> {
        let wrong = |what: &str| Error::new(format!("the web server's answer is wrong: {what}"));
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut response = Response::new(&mut fields);
        let length = match response.parse(&self.header).map_err(|error| wrong(&error.to_string()))? {
            Status::Complete(length) => length,
            Status::Partial => return Ok(None),
        };
        let Some(Answer { name, header_bytes, body_bytes, .. }) = self.expected.pop_front() else {
            return Err(wrong("there was no request for this response"));
        };
        let code = response.code.unwrap_or_default();
        if code != OK {
            return Err(wrong(&format!("{code} for {name:?}")));
        }
        let content = response
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case("content-length"))
            .and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok())
            .ok_or_else(|| wrong(&format!("{name:?} has no content-length")))?;
        if (length as u64, content) != (header_bytes, body_bytes) {
            return Err(wrong(&format!(
                "{name:?} has a header of {length} bytes and {content} bytes of content instead of \
                 {header_bytes} and {body_bytes}"
            )));
        }
        Ok(Some((length, content)))
    }
}
