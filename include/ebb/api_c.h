/* The public API behind functions of C linkage, in a shared library that the Python package loads:
 * for languages that load one and declare its functions themselves. It compiles as C99 and as C++.
 * Options go in and results come out as JSON, named as the fields of the structs they stand for; an
 * option that is absent or null keeps its default. Choices are the words of the command line,
 * numbers of bytes are numbers or texts such as "4GiB". What a call does, on which thread and how
 * it fails is the contract of the function or method it is named after.
 *
 * Functions that return int return 0, or 1 for a failure that ebb_api_error() tells, on the same
 * thread, until the next failure; those that return a pointer return null. No C++ exception leaves
 * them. A result is the caller's, who gives it to ebb_api_free(); a failure leaves none.
 */
#pragma once

/* Of this header: it changes where callers must be compiled anew. ebb_api_version() is that of the
 * library which was loaded. */
#define EBB_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ebb_api_stop ebb_api_stop; /* a std::stop_source */
typedef struct ebb_api_model ebb_api_model;
typedef struct ebb_api_trainer ebb_api_trainer;
typedef struct ebb_api_generator ebb_api_generator;

/* Told what happens, on the thread of the call: `kind` says what, `value` is JSON, or "" where there
 * is nothing to tell. Returns other than 0 to end the work as a stop does. It must not throw. Null:
 * nobody is told.
 *   training    "note" (a text), "started", "step" (a StepReport), "asked" (whether to stop)
 *   evaluation  "note", "batch" (an EvaluateReport)
 *   generation  "text" (the next piece) */
typedef int (*ebb_api_listener)(void* context, const char* kind, const char* value);

int ebb_api_version(void);
/* {"kind": "OutOfBudget", "text": ..., "shortfalls": [...], "remedies": [...]}: the class of ebb/error.h
 * with what it carries. */
const char* ebb_api_error(void);
void ebb_api_free(char* result);

/* What a call was given may be requested from any thread, and destroyed while the call runs. */
ebb_api_stop* ebb_api_stop_create(void);
void ebb_api_stop_request(ebb_api_stop* stop);
void ebb_api_stop_destroy(ebb_api_stop* stop);

/* TrainOptions to a Plan; `machine` may be "". */
int ebb_api_plan(const char* options, const char* machine, char** result);
/* GenerateOptions to a text. */
int ebb_api_explain_generation(const char* options, long long prompt_tokens, const char* machine,
                               char** result);
/* EvaluateOptions to an EvaluateSummary. `stop` may be null, here and below. */
int ebb_api_evaluate(const char* options, ebb_api_listener listener, void* context,
                     ebb_api_stop* stop, char** result);
/* A path to what inspect() says for programs. */
int ebb_api_inspect(const char* path, char** result);

/* `model` as Model::open takes it, with ModelOptions. */
ebb_api_model* ebb_api_model_open(const char* model, const char* options);
void ebb_api_model_destroy(ebb_api_model* model);
/* {"name", "parameters", "vocabulary", "max_positions", "has_weights", "has_chat_template"} */
int ebb_api_model_describe(ebb_api_model* model, char** result);
/* One of {"encode": text}, {"decode": ids}, {"render_chat": messages}, {"encode_chat": messages}. */
int ebb_api_model_convert(ebb_api_model* model, const char* request, char** result);

/* The listener and its context are used for as long as the trainer lives. */
ebb_api_trainer* ebb_api_trainer_create(const char* options, ebb_api_listener listener,
                                        void* context, ebb_api_stop* stop);
void ebb_api_trainer_destroy(ebb_api_trainer* trainer);
int ebb_api_trainer_plan(ebb_api_trainer* trainer, char** result);
int ebb_api_trainer_run(ebb_api_trainer* trainer, char** result);
/* null where no step is left, or there is nothing to evaluate. */
int ebb_api_trainer_step(ebb_api_trainer* trainer, char** result);
int ebb_api_trainer_evaluate(ebb_api_trainer* trainer, char** result);
int ebb_api_trainer_save(ebb_api_trainer* trainer, char** result);
int ebb_api_trainer_finish(ebb_api_trainer* trainer, char** result);

/* GeneratorOptions, those of the placement beside them. The model may be destroyed before. */
ebb_api_generator* ebb_api_generator_create(ebb_api_model* model, const char* options,
                                            ebb_api_stop* stop);
void ebb_api_generator_destroy(ebb_api_generator* generator);
long long ebb_api_generator_positions(ebb_api_generator* generator);
/* `request` is one of {"prompt": text}, {"ids": [...]}, {"messages": [...]}, with SamplingOptions
 * beside it. */
int ebb_api_generator_generate(ebb_api_generator* generator, const char* request,
                               ebb_api_listener listener, void* context, ebb_api_stop* stop,
                               char** result);

#ifdef __cplusplus
}
#endif
