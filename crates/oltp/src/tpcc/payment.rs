//! Payment (clause 2.5).

use super::input::PaymentInput;
use super::new_order::known;
use super::random::put_text;
use super::schema::{customer, district, history, index, table, warehouse};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

impl Tpcc {
    pub(super) fn payment(
        &self,
        session: &mut TxSession<'_>,
        input: &PaymentInput,
    ) -> Result<TpccOutcome, Abort> {
        let (home, amount) = (input.home, input.amount);
        let row = known(session.look_up(index::WAREHOUSE, u64::from(home.warehouse)))?;
        let mut words = [0; 1 + warehouse::TEXT_WORDS];
        session.read(table::WAREHOUSE, row, warehouse::YTD, &mut words)?;
        session.update(table::WAREHOUSE, row, warehouse::YTD, &[words[0] + amount]);
        let mut text = [words[1], 0, 0];

        let row = known(session.look_up(index::DISTRICT, home.key()))?;
        let mut words = [0; 1 + district::TEXT_WORDS];
        session.read(table::DISTRICT, row, district::YTD, &mut words)?;
        session.update(table::DISTRICT, row, district::YTD, &[words[0] + amount]);
        text[2] = words[1];

        let row = self.customer(session, &input.customer)?;
        const READ: usize = customer::TEXT + customer::TEXT_WORDS;
        let mut words = [0; READ];
        session.read(table::CUSTOMER, row, 0, &mut words)?;
        let changed = [
            words[customer::BALANCE].wrapping_sub(amount),
            words[customer::YTD_PAYMENT] + amount,
            words[customer::PAYMENTS] + 1,
        ];
        session.update(table::CUSTOMER, row, customer::BALANCE, &changed);
        if words[customer::BAD_CREDIT] == 1 {
            self.note_payment(session, row, words[0], input)?;
        }

        let mut stored = [0; history::WORDS];
        stored[history::CUSTOMER] = words[0];
        stored[history::DISTRICT] = home.key();
        stored[history::DATE] = self.now();
        stored[history::AMOUNT] = amount;
        stored[history::TEXT..].copy_from_slice(&text);
        session.insert(table::HISTORY, &stored, &[]);
        Ok(TpccOutcome::Payment(home, amount))
    }

    /// Puts the payment in front of a bad customer's data, of which as much goes at the end.
    fn note_payment(
        &self,
        session: &mut TxSession<'_>,
        row: u32,
        key: u64,
        input: &PaymentInput,
    ) -> Result<(), Abort> {
        const NOTE_WORDS: usize = 5;
        let mut data = [0; NOTE_WORDS + customer::DATA_WORDS];
        session.read(
            table::CUSTOMER,
            row,
            customer::DATA,
            &mut data[NOTE_WORDS..],
        )?;
        let note = format!(
            "{key:x} {} {} {}|",
            input.home.district, input.home.warehouse, input.amount
        );
        put_text(&note, &mut data[..NOTE_WORDS]);
        let data = &data[..customer::DATA_WORDS];
        session.update(table::CUSTOMER, row, customer::DATA, data);
        Ok(())
    }
}
