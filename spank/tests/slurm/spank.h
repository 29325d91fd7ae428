/* The few declarations of Slurm's <slurm/spank.h> that the plugin uses, so that its tests need no Slurm. The order of the
 * items is that of Slurm 22.05 to 26.05. */
#ifndef SPANK_H
#define SPANK_H

typedef struct spank_handle *spank_t;
typedef int(spank_f)(spank_t spank, int ac, char *argv[]);
typedef enum spank_err { ESPANK_SUCCESS = 0, ESPANK_ERROR = 1, ESPANK_NOSPACE = 6 } spank_err_t;
typedef enum spank_item {
    S_JOB_UID,
    S_JOB_GID,
    S_JOB_ID,
    S_JOB_STEPID,
    S_JOB_NNODES,
    S_JOB_LOCAL_TASK_COUNT = 6,
    S_JOB_TOTAL_TASK_COUNT,
    S_TASK_ID = 11,
    S_TASK_GLOBAL_ID,
    S_TASK_EXIT_STATUS,
    S_TASK_PID,
    S_JOB_SUPPLEMENTARY_GIDS = 19,
    S_SLURM_VERSION,
    S_SLURM_RESTART_COUNT = 28,
    S_JOB_ARRAY_ID,
    S_JOB_ARRAY_TASK_ID,
} spank_item_t;

extern spank_f slurm_spank_task_exit;
extern spank_f slurm_spank_job_epilog;
extern spank_f slurm_spank_exit;
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...);
spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size);

#define SPANK_PLUGIN(name, version)                  \
    extern const char plugin_name[], plugin_type[];  \
    extern const unsigned int spank_plugin_version;  \
    const char plugin_name[] = #name;                \
    const char plugin_type[] = "spank";              \
    const unsigned int spank_plugin_version = version;

#endif
