/* Predicts a hash join's probe with its data on DRAM and CXL memory, three pages to two. */
#include <stdio.h>
#include <tierloom_model.h>

int main(void)
{
    tl_machine *machine;
    tl_prediction answer = {.size = sizeof answer};
    if (tl_machine_load(tl_string("nus24"), &machine) != TL_OK
        || tl_predict(machine, tl_string("probe"), tl_string("3:2"), 16, &answer) != TL_OK) {
        fprintf(stderr, "%s\n", tl_last_error().data);
        return 1;
    }
    printf("modelled: %.0f rows/s, limited by %s\n", answer.tuples_per_s, answer.bottleneck);
    tl_machine_free(machine);
    return 0;
}
