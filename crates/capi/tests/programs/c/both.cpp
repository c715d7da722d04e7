// Both headers in C++, with what C++ reads differently from C.
#include <cstdio>
#include <thread>
#include <tierloom_model.h>
#include <tierloom_region.h>
#include <type_traits>

static_assert(std::is_standard_layout<tl_prediction>::value, "structs are those of C");
static_assert(offsetof(tl_prediction, size) == 0 && offsetof(tl_region_options, size) == 0, "");

int main()
{
    tl_machine *machine = nullptr;
    if (tl_machine_load(tl_string("nus24"), &machine) != TL_OK) {
        return 1;
    }
    // One machine, several threads, and an error of one of them.
    bool good[4] = {};
    std::thread threads[4];
    for (int number = 0; number < 4; number++) {
        threads[number] = std::thread([&good, machine, number] {
            tl_prediction answer{};
            answer.size = sizeof answer;
            const char *work = number == 0 ? "prob" : "probe";
            tl_status status = tl_predict(machine, tl_string(work), tl_string("3:2"), 8, &answer);
            bool failed = number == 0;
            good[number] = (status == TL_BAD_INPUT) == failed
                && (status == TL_OK) != failed && (tl_last_error().len > 0) == failed;
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    tl_machine_free(machine);
    if (good[0] && good[1] && good[2] && good[3]) {
        std::puts("threads have errors of their own");
        return 0;
    }
    return 1;
}
