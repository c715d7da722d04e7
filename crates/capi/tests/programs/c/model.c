/* The model through C: every number that the test compares, with all its digits. */
#include <math.h>
#include <stdio.h>
#include <tierloom_model.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, tl_last_error().data); \
            return 1; \
        } \
    } while (0)

static int typed(const tl_machine *machine)
{
    tl_prediction answer = {.size = sizeof answer};
    CHECK(tl_predict(machine, tl_string("probe"), tl_string("3:2"), 16, &answer) == TL_OK);
    printf("rate %.17g\nlow %.17g\nhigh %.17g\ntime %.17g\nworkers %u\nbottleneck %s\n",
           answer.tuples_per_s, answer.tuples_per_s_low, answer.tuples_per_s_high, answer.time_ns,
           answer.workers, answer.bottleneck);
    /* A program of the first version has no more than it had then. */
    CHECK(tl_predict(machine, tl_string("probe"), tl_string(""), 0, &answer) == TL_OK);
    CHECK(answer.workers == 32);
    CHECK(isnan(answer.bytes_per_tuple) || answer.bytes_per_tuple > 0);
    tl_tuning tuning = {.size = sizeof tuning};
    CHECK(tl_tune(machine, tl_string("read"), 32, &tuning) == TL_OK);
    printf("weights %s\ngain %.17g\n", tuning.weights, tuning.gain);
    CHECK(tuning.gain_low <= tuning.gain && tuning.gain <= tuning.gain_high);
    return 0;
}

static int documents(void)
{
    tl_text *text = NULL;
    tl_str question = tl_string("{\"machine\": \"nus24\", \"work\": \"probe\", \"placement\": \"3:2\","
                                " \"versus\": \"dram\", \"workers\": 16}");
    CHECK(tl_predict_json(question, &text) == TL_OK);
    printf("predict %.*s\n", (int)tl_text_get(text).len, tl_text_get(text).data);
    tl_text_free(text);
    CHECK(tl_tune_json(tl_string("{\"machine\": \"nus24\", \"phases\": \"read\"}"), &text) == TL_OK);
    CHECK(strstr(tl_text_get(text).data, "best_rate") != NULL);
    tl_text_free(text);
    return 0;
}

static int mistakes(const tl_machine *machine)
{
    tl_machine *none = NULL;
    CHECK(tl_machine_load(tl_string("nus42"), &none) == TL_BAD_INPUT);
    CHECK(strstr(tl_last_error().data, "did you mean nus24") != NULL && none == NULL);
    CHECK(tl_machine_load(tl_string("/nowhere.yaml"), &none) == TL_BAD_INPUT);
    tl_prediction answer = {.size = sizeof answer};
    CHECK(tl_predict(machine, tl_string("prob"), tl_string(""), 0, &answer) == TL_BAD_INPUT);
    CHECK(tl_predict(machine, tl_string("probe"), tl_string("hbm"), 0, &answer) == TL_BAD_INPUT);
    CHECK(tl_predict(machine, tl_string("probe"), tl_string(""), 9999, &answer) == TL_BAD_INPUT);
    tl_text *text = NULL;
    const char *questions[] = {
        "", "{}", "[]", "{\"machine\": \"nus24\"}", "{\"machine\": 1, \"work\": \"probe\"}",
        "{\"machine\": \"nus24\", \"wrok\": \"probe\"}",
        "{\"machine\": \"nus24\", \"work\": \"probe\", \"query\": \"q1.1\"}",
        "{\"machine\": [], \"work\": \"probe\"}",
        "{\"machine\": \"nus24\", \"work\": \"probe\", \"workers\": 0}"};
    for (size_t number = 0; number < sizeof questions / sizeof *questions; number++) {
        CHECK(tl_predict_json(tl_string(questions[number]), &text) == TL_BAD_INPUT);
        CHECK(text == NULL && tl_last_error().len > 0);
    }
    CHECK(tl_tune_json(tl_string("{\"phases\": \"probe\"}"), &text) == TL_BAD_INPUT);
    return 0;
}

int main(void)
{
    CHECK(tl_abi_version() == TL_ABI_VERSION);
    CHECK(tl_machine_count() > 3);
    for (size_t number = 0; number < tl_machine_count(); number++) {
        tl_machine *machine = NULL;
        CHECK(tl_machine_load(tl_machine_name(number), &machine) == TL_OK);
        tl_machine_free(machine);
    }
    CHECK(tl_machine_name(tl_machine_count()).len == 0);
    tl_machine *machine = NULL;
    CHECK(tl_machine_load(tl_string("nus24"), &machine) == TL_OK);
    tl_text *yaml = NULL;
    CHECK(tl_machine_yaml(machine, &yaml) == TL_OK);
    CHECK(strstr(tl_text_get(yaml).data, "nus24") != NULL);
    tl_text_free(yaml);
    int ended = typed(machine) || mistakes(machine) || documents();
    tl_machine_free(machine);
    return ended;
}
